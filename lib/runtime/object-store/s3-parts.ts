import { createReadStream } from 'node:fs'
import { completeUpload } from './complete.ts'
import { type Body, wrongLength } from './http.ts'
import type { ObjectInfo, ObjectStore, PartInfo, Release } from './object-store.ts'
import type { Again } from './retry.ts'
import { openSpill } from './s3-spill.ts'

/** Maximum bytes of one PUT. */
export const SINGLE_PUT_MAX = 5 * 1024 ** 3
const MAX_PARTS = 10_000
/** Bytes on disk at a time for a body of unknown size; 10,000 parts are 78 GiB. */
const SPILLED_PART = 8 * 1024 ** 2
const FILE_PART = 64 * 1024 ** 2
const FILE_PARTS_AT_ONCE = 3

interface Options {
  contentType: string
  size: number | undefined
  signal: AbortSignal | undefined
}

interface StreamOptions extends Options {
  release?: Release | undefined
  /** Folder that buffers parts until they are complete. */
  scratch: string
  again: Again
}

/**
 * Uploads a stream of unknown or very large size in parts, buffering one part at a time on disk, so that memory does
 * not depend on the number or speed of the streams. Leaves no parts behind after a failure.
 */
export async function putInParts(
  store: ObjectStore,
  key: string,
  body: Body,
  options: StreamOptions,
): Promise<ObjectInfo> {
  const { contentType, size, signal, release, scratch, again } = options
  const partSize = Math.max(SPILLED_PART, Math.ceil((size ?? 0) / MAX_PARTS))
  const spill = await openSpill(scratch)
  try {
    const lengths = spill.partsOf(body, partSize, release)
    const first = (await lengths.next()).value ?? 0
    if (first < partSize) {
      if (size !== undefined && first !== size) throw wrongLength(size, first)
      const whole = { contentType, size: first, ...(signal && { signal }) }
      return await again(() => store.put(key, spill.content(first), whole), signal)
    }
    return await inUpload(store, key, { contentType, again, signal }, async (uploadId) => {
      const parts: PartInfo[] = []
      let total = 0
      for (let length: number | undefined = first; length; length = (await lengths.next()).value ?? undefined) {
        const part = { size: length, ...(signal && { signal }) }
        const [number, bytes] = [parts.length + 1, length]
        total += bytes
        parts.push(await again(() => store.putPart(key, uploadId, number, spill.content(bytes), part), signal))
      }
      if (size !== undefined && total !== size) throw wrongLength(size, total)
      return parts
    })
  } finally {
    await spill.close()
  }
}

interface FileOptions extends Options {
  size: number
  again: Again
}

/** Uploads a large file, a few parts at a time, and retries each part. Undefined for a file that fits in one PUT. */
export async function uploadInParts(
  store: ObjectStore,
  path: string,
  key: string,
  { contentType, size, signal, again }: FileOptions,
): Promise<ObjectInfo | undefined> {
  if (size <= FILE_PART) return undefined
  const partSize = Math.max(FILE_PART, Math.ceil(size / MAX_PARTS))
  const count = Math.ceil(size / partSize)
  return inUpload(store, key, { contentType, again, signal }, async (uploadId) => {
    const parts: PartInfo[] = []
    let next = 1
    const worker = async () => {
      while (next <= count) {
        const n = next++
        const start = (n - 1) * partSize
        const end = Math.min(start + partSize, size)
        parts[n - 1] = await again(() => {
          const file = createReadStream(path, { start, end: end - 1 })
          const part = { size: end - start, ...(signal && { signal }) }
          return store.putPart(key, uploadId, n, file, part).finally(() => file.destroy())
        }, signal).catch((error) => {
          next = count + 1
          throw error
        })
      }
    }
    await settleAll(Array.from({ length: FILE_PARTS_AT_ONCE }, worker))
    return parts
  })
}

/** Waits for all parts, so that none is still in transit when the upload is aborted. */
async function settleAll(work: Promise<void>[]): Promise<void> {
  for (const result of await Promise.allSettled(work)) if (result.status === 'rejected') throw result.reason
}

async function inUpload(
  store: ObjectStore,
  key: string,
  { contentType, again, signal }: Pick<StreamOptions, 'contentType' | 'again' | 'signal'>,
  send: (uploadId: string) => Promise<PartInfo[]>,
): Promise<ObjectInfo> {
  const uploadId = await store.createMultipart(key, { contentType })
  try {
    const parts = await send(uploadId)
    const size = parts.reduce((sum, part) => sum + part.size, 0)
    return await completeUpload(store, { key, uploadId, parts, size, again, signal })
  } catch (error) {
    // Rethrow the original error, also when the abort fails.
    await store.abortMultipart(key, uploadId).catch(() => undefined)
    throw error
  }
}
