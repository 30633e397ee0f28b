import { randomUUID } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { failpoint } from '../failpoint.ts'
import { etagOfParts } from './complete.ts'
import { disk, errnoOf, FILE_MODE, FOLDER_MODE, readContent, readSeal, type Seal, writeSealed } from './folder-file.ts'
import { type Layout, moveIntoPlace, syncFolder } from './folder-path.ts'
import { checkContentType, checkKey, checkPartNumber, checkPartOrder } from './key.ts'
import { MIN_PART_BYTES, type ObjectInfo, type PartInfo, type PutPartOptions, StoreError } from './object-store.ts'

const UPLOAD_ID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/
const PART = /^part-(\d{5})$/
const partName = (n: number) => `part-${String(n).padStart(5, '0')}`
const noUpload = () => new StoreError('NotFound', 'No such upload')

interface Upload {
  key: string
  contentType: string
}
type NamedPart = Pick<PartInfo, 'partNumber' | 'etag'>

/** Multipart uploads in a folder: one folder per upload, one sealed file per part. */
export function folderMultipart(at: Layout) {
  const folderOf = (uploadId: string) => join(at.uploads, uploadId)

  async function find(folder: string, key: string, uploadId: string): Promise<Upload | undefined> {
    checkKey(key)
    if (!UPLOAD_ID.test(uploadId)) return undefined
    const text = await readFile(join(folder, uploadId, 'upload.json'), 'utf8').catch(absent)
    const upload = text === undefined ? undefined : (JSON.parse(text) as Upload)
    return upload?.key === key ? upload : undefined
  }

  async function require(key: string, uploadId: string): Promise<Upload> {
    const upload = await find(at.uploads, key, uploadId)
    if (!upload) throw noUpload()
    return upload
  }

  async function create(key: string, options: { contentType: string }): Promise<string> {
    checkKey(key)
    checkContentType(options.contentType)
    const id = randomUUID()
    const temporary = join(at.temporary, id)
    await mkdir(temporary, { mode: FOLDER_MODE })
    const handle = await open(join(temporary, 'upload.json'), 'wx', FILE_MODE)
    try {
      const upload: Upload = { key, contentType: options.contentType }
      await handle.writeFile(JSON.stringify(upload))
      await handle.sync()
    } finally {
      await handle.close()
    }
    await syncFolder(temporary)
    await moveIntoPlace(temporary, folderOf(id), at.uploads)
    return id
  }

  async function putPart(key: string, id: string, n: number, body: Readable, options: PutPartOptions) {
    checkPartNumber(n)
    await disk(require(key, id))
    const temporary = join(at.temporary, randomUUID())
    try {
      const seal = await writeSealed(temporary, body, { contentType: 'application/octet-stream', ...options })
      failpoint('store.part-written')
      // Not moveIntoPlace: it would re-create the folder of an upload that was completed or aborted meanwhile.
      await disk(rename(temporary, join(folderOf(id), partName(n))).catch(absentIs(noUpload)))
      await disk(syncFolder(folderOf(id)))
      return { partNumber: n, etag: seal.etag, size: seal.size }
    } finally {
      await rm(temporary, { force: true })
    }
  }

  async function readPart(id: string, n: number): Promise<Seal | undefined> {
    const handle = await open(join(folderOf(id), partName(n))).catch(absent)
    return handle && readSeal(handle).finally(() => handle.close())
  }

  async function listParts(key: string, id: string): Promise<PartInfo[]> {
    await require(key, id)
    const names = (await readdir(folderOf(id)).catch(absentIs(noUpload))).sort()
    const parts: PartInfo[] = []
    for (const name of names) {
      const n = Number(PART.exec(name)?.[1])
      if (!n) continue
      const seal = await readPart(id, n)
      // A part goes only with its upload, which another process completes or aborts at this moment.
      if (!seal) throw noUpload()
      parts.push({ partNumber: n, etag: seal.etag, size: seal.size })
    }
    return parts
  }

  /**
   * Joins the parts into `result`, then claims the upload by renaming its folder (one of several concurrent completes
   * wins), then renames the result to its key. If the process is killed after the second step, the next complete does
   * the third.
   */
  async function complete(key: string, id: string, parts: readonly NamedPart[]): Promise<ObjectInfo> {
    const upload = await find(at.uploads, key, id)
    if (upload) {
      await joinParts(upload, id, parts)
      failpoint('store.parts-joined')
      await rename(folderOf(id), join(at.completing, id)).catch(absentIs(noUpload))
      await Promise.all([syncFolder(at.uploads), syncFolder(at.completing)])
      failpoint('store.upload-claimed')
    } else if (!(await find(at.completing, key, id))) throw noUpload()
    return publish(key, id)
  }

  async function joinParts(upload: Upload, id: string, parts: readonly NamedPart[]): Promise<void> {
    await checkParts(id, parts)
    const temporary = join(at.temporary, randomUUID())
    try {
      const etag = etagOfParts(parts)
      await writeSealed(temporary, contentOf(id, parts), { contentType: upload.contentType, etag })
      await rename(temporary, join(folderOf(id), 'result')).catch(absentIs(noUpload))
      await syncFolder(folderOf(id))
    } finally {
      await rm(temporary, { force: true })
    }
  }

  async function checkParts(id: string, parts: readonly NamedPart[]): Promise<void> {
    checkPartOrder(parts)
    for (const [i, part] of parts.entries()) {
      const seal = await readPart(id, part.partNumber)
      if (seal?.etag !== part.etag) throw invalidPart(part.partNumber)
      if (seal.size < MIN_PART_BYTES && i < parts.length - 1) {
        throw new StoreError('EntityTooSmall', `Part ${part.partNumber} has less than 5 MiB and is not the last`)
      }
    }
  }

  async function* contentOf(id: string, parts: readonly NamedPart[]): AsyncIterable<Buffer> {
    for (const part of parts) {
      const handle = await open(join(folderOf(id), partName(part.partNumber))).catch(absentIs(noUpload))
      const seal = await readSeal(handle).catch(async (error) => {
        await handle.close()
        throw error
      })
      const content = await readContent(handle, seal)
      // Another request may have replaced the part since checkParts.
      if (seal.etag !== part.etag) content.destroy(invalidPart(part.partNumber))
      yield* content
    }
  }

  async function publish(key: string, id: string): Promise<ObjectInfo> {
    const folder = join(at.completing, id)
    const handle = await open(join(folder, 'result')).catch(absentIs(noUpload))
    const { lastModified, ...seal } = await readSeal(handle).finally(() => handle.close())
    await moveIntoPlace(join(folder, 'result'), at.object(key), at.objects).catch(absentIs(noUpload))
    failpoint('store.upload-published')
    await rm(folder, { recursive: true, force: true })
    return { key, ...seal, lastModified }
  }

  async function abort(key: string, id: string): Promise<void> {
    for (const folder of [at.uploads, at.completing]) {
      if (!(await find(folder, key, id))) continue
      // Rename before removing: a concurrent putPart must not find a half-removed folder.
      const rubbish = join(at.temporary, randomUUID())
      await rename(join(folder, id), rubbish).catch(absent)
      await rm(rubbish, { recursive: true, force: true })
    }
  }

  /** Aborts the uploads of all keys that are meant, and returns their number. */
  async function abortWhere(isMeant: (key: string) => boolean): Promise<number> {
    let count = 0
    for (const folder of [at.uploads, at.completing]) {
      for (const id of await readdir(folder)) {
        const text = await readFile(join(folder, id, 'upload.json'), 'utf8').catch(absent)
        const key = text === undefined ? undefined : (JSON.parse(text) as Upload).key
        if (key === undefined || !isMeant(key)) continue
        await abort(key, id)
        count++
      }
    }
    return count
  }

  return { create, putPart, listParts, complete, abort, abortWhere }
}

const invalidPart = (n: number) => new StoreError('InvalidPart', `Part ${n} does not exist with this etag`)

/** For `.catch(absent)`: undefined when the file does not exist. */
export const absent = (error: unknown): undefined => {
  if (errnoOf(error) !== 'ENOENT') throw error
}

const absentIs =
  (other: () => Error) =>
  (error: unknown): never => {
    throw errnoOf(error) === 'ENOENT' ? other() : error
  }
