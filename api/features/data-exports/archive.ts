import type { PassThrough, Readable } from 'node:stream'
import { ZipFile } from 'yazl'

/** An entry of an archive. `open` is called when the entries before it have been read. */
export interface ArchiveEntry {
  path: string
  bytes: number
  at: Date
  open(): Promise<Readable>
}

/** What the fields of an entry can say: from 1980, and to 2038. */
const FIRST = Date.UTC(1980, 0, 2)
const LAST = Date.UTC(2038, 0, 1)
const inRange = (at: Date) => new Date(Math.min(LAST, Math.max(FIRST, at.getTime())))

/** A ZIP file of these entries, stored as they are. Reads one entry at a time, as fast as it is read itself. */
export function archiveOf(entries: readonly ArchiveEntry[]): Readable {
  const zip = new ZipFile()
  const out = zip.outputStream as PassThrough
  let source: Readable | undefined
  const fail = (error: Error) => void out.destroy(error)
  zip.on('error', fail)
  // It may fail before anyone reads it, who then gets the error: without a listener it would end the process.
  out.on('error', () => {})
  // A reader that stops closes the source, and with it the connection to the store.
  out.once('close', () => source?.destroy())
  for (const { path, bytes, at, open } of entries) {
    zip.addReadStreamLazy(path, { mtime: inRange(at), mode: 0o100644, compress: false, size: bytes }, (use) => {
      if (out.destroyed) return
      open().then((opened) => {
        source = opened
        // yazl pipes it, and a pipe passes no errors on.
        opened.on('error', fail)
        if (out.destroyed) opened.destroy()
        else use(null, opened)
      }, fail)
    })
  }
  zip.end()
  return out
}
