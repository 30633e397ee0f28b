import { randomUUID } from 'node:crypto'
import { constants, createReadStream, mkdirSync } from 'node:fs'
import { access, open, readdir, rm, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { addAbortSignal, Readable } from 'node:stream'
import { failpoint } from '../failpoint.ts'
import { saveBody } from './file.ts'
import { type Body, disk, FOLDER_MODE, readContent, readSeal, writeSealed } from './folder-file.ts'
import { absent, folderMultipart } from './folder-multipart.ts'
import { layout, moveIntoPlace, OBJECT_SUFFIX, removeEmptyFolders, sweepTemporary, syncFolder } from './folder-path.ts'
import { inParts } from './in-parts.ts'
import { checkContentType, checkFolderPrefix, checkKey, checkPrefix, checkRange } from './key.ts'
import { type CopyOptions, type ObjectInfo, type ObjectStore, type PutOptions, StoreError } from './object-store.ts'

export interface FolderOptions {
  folder: string
  /** Has what is copied, if this store does not. */
  sourceOf?: (key: string) => Pick<ObjectStore, 'get'>
}

/**
 * An object store in a folder, for one machine. Several processes may use the same folder at once. A killed process
 * leaves temporary files (removed a day later) but never half an object. An acknowledged put survives a power failure.
 */
export function openFolderStore(options: FolderOptions): ObjectStore {
  const at = layout(options.folder)
  for (const path of [at.objects, at.temporary, at.uploads, at.completing])
    mkdirSync(path, { recursive: true, mode: FOLDER_MODE })
  // Errors are ignored: a broken folder fails visibly in the first put.
  const swept = sweepTemporary(at.temporary, Date.now()).catch(() => undefined)
  const multipart = folderMultipart(at)

  async function put(key: string, body: Body, putOptions: PutOptions): Promise<ObjectInfo> {
    checkKey(key)
    checkContentType(putOptions.contentType)
    const temporary = join(at.temporary, randomUUID())
    try {
      const seal = await writeSealed(temporary, body, putOptions)
      const { mtime } = await disk(stat(temporary))
      failpoint('store.object-written')
      await disk(moveIntoPlace(temporary, at.object(key), at.objects))
      return { key, ...seal, lastModified: mtime }
    } finally {
      await rm(temporary, { force: true })
    }
  }

  async function openObject(key: string) {
    checkKey(key)
    const handle = await disk(open(at.object(key)).catch(absent))
    if (!handle) return undefined
    try {
      return { handle, info: { key, ...(await disk(readSeal(handle))) } }
    } catch (error) {
      await handle.close()
      throw error
    }
  }

  async function get(key: string, range?: { start: number; end?: number }, signal?: AbortSignal) {
    checkRange(range)
    signal?.throwIfAborted()
    const found = await openObject(key)
    if (!found) throw new StoreError('NotFound', `No object ${key}`)
    const body = await readContent(found.handle, found.info, range)
    return { info: found.info, body: signal ? addAbortSignal(signal, body) : body }
  }

  async function head(key: string): Promise<ObjectInfo | undefined> {
    const found = await openObject(key)
    await found?.handle.close()
    return found?.info
  }

  async function* list(prefix: string): AsyncIterable<ObjectInfo> {
    checkPrefix(prefix)
    const cut = prefix.lastIndexOf('/') + 1
    for await (const key of keysBelow(at.objects, prefix.slice(0, cut), prefix.slice(cut))) {
      const info = await head(key)
      if (info) yield info
    }
  }

  async function copy(from: string, to: string, o: CopyOptions = {}): Promise<ObjectInfo> {
    const { signal } = o
    const { info, body } = await (options.sourceOf?.(from) ?? { get }).get(from, undefined, signal)
    try {
      const { contentType, size } = info
      const bytes = Readable.from(inParts({ size, body }, o), { objectMode: false })
      return await put(to, bytes, { contentType, size, ...(signal && { signal }) })
    } finally {
      body.destroy()
    }
  }

  const check = () => disk(access(at.objects, constants.W_OK))

  async function remove(key: string): Promise<boolean> {
    checkKey(key)
    const path = at.object(key)
    const gone = await disk(unlink(path).then(() => true, absent))
    await disk(syncFolder(dirname(path)))
    await disk(removeEmptyFolders(dirname(path), at.objects))
    return gone ?? false
  }

  async function deletePrefix(prefix: string): Promise<number> {
    checkFolderPrefix(prefix)
    // Uploads first: one that completes meanwhile leaves an object, which the second step finds.
    let count = await disk(multipart.abortWhere((key) => key.startsWith(prefix)))
    for await (const key of keysBelow(at.objects, prefix, '')) if (await remove(key)) count++
    return count
  }

  async function download(key: string, path: string, signal?: AbortSignal): Promise<ObjectInfo> {
    const { info, body } = await get(key, undefined, signal)
    await saveBody(body, path)
    return info
  }

  async function upload(path: string, key: string, o: { contentType: string; signal?: AbortSignal }) {
    const { size } = await stat(path)
    const body = createReadStream(path)
    return put(key, body, { ...o, size }).finally(() => body.destroy())
  }

  return {
    put,
    get,
    head,
    list,
    delete: async (key) => void (await remove(key)),
    async deleteForGood(key) {
      checkKey(key)
      await disk(multipart.abortWhere((found) => found === key))
      await remove(key)
    },
    copy,
    deletePrefix,
    createMultipart: (key, o) => disk(multipart.create(key, o)),
    // Not through disk(): errors of the body must reach the caller unchanged.
    putPart: multipart.putPart,
    listParts: (key, id) => disk(multipart.listParts(key, id)),
    completeMultipart: (key, id, parts) => disk(multipart.complete(key, id, parts)),
    abortMultipart: (key, id) => disk(multipart.abort(key, id)),
    download,
    upload,
    presignGet: () => Promise.resolve(undefined),
    check,
    checkColdTier: check,
    close: () => swept,
  }
}

/** Keys in order, reading one folder at a time. `start` is a prefix of the names in the first folder. */
async function* keysBelow(objects: string, folderKey: string, start: string): AsyncIterable<string> {
  const entries = (await disk(readdir(join(objects, folderKey), { withFileTypes: true }).catch(absent))) ?? []
  // `a-` comes before `a/b` and `a0` after it: a folder sorts with its slash.
  const names = entries
    .map((e) => (e.isDirectory() ? `${e.name}/` : e.name.slice(0, -OBJECT_SUFFIX.length)))
    .filter((name) => name.startsWith(start))
    .sort()
  for (const name of names) {
    if (name.endsWith('/')) yield* keysBelow(objects, folderKey + name, '')
    else yield folderKey + name
  }
}
