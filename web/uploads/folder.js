/**
 * Every file below what was dropped, as `{path, file}`. Must be called while the event is being handled: afterwards the
 * browser empties the list.
 */
export function droppedFiles(transfer) {
  const entries = [...transfer.items]
    .filter((i) => i.kind === 'file')
    .map((i) => i.webkitGetAsEntry?.() ?? i.getAsFile())
  return Promise.all(entries.filter(Boolean).map((e) => (e instanceof File ? [chosen(e)] : walk(e)))).then((all) =>
    all.flat(),
  )
}

/** A file of an input; of a folder input it has a path. */
export const chosen = (file) => ({ path: file.webkitRelativePath || file.name, file })

async function walk(entry) {
  const path = entry.fullPath.replace(/^\//, '')
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject)).catch(() => undefined)
    return file ? [{ path, file }] : []
  }
  const files = []
  const reader = entry.createReader()
  // A reader returns about a hundred entries at a time, and none at the end.
  for (let batch = await read(reader); batch.length > 0; batch = await read(reader)) {
    for (const child of batch) files.push(...(await walk(child)))
  }
  return files
}

/** A folder that cannot be read must not lose the others. */
const read = (reader) => new Promise((resolve, reject) => reader.readEntries(resolve, reject)).catch(() => [])
