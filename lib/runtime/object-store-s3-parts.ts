import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import type { ObjectInfo, ObjectStore, PartInfo, Release } from './object-store.ts'
import { type Body, chunksOf, wrongLength } from './object-store-s3-http.ts'

/** Maximum bytes of one PUT. */
export const SINGLE_PUT_MAX = 5 * 1024 ** 3
const MAX_PARTS = 10_000
/** For a body of unknown size, one part is in memory at a time; 10,000 parts are 160 GiB. */
const BUFFERED_PART = 16 * 1024 ** 2
const FILE_PART = 64 * 1024 ** 2
const FILE_PARTS_AT_ONCE = 3

interface Options {
  contentType: string
  size: number | undefined
  signal: AbortSignal | undefined
  release?: Release | undefined
}

/** Uploads a stream of unknown or very large size in parts. Leaves no parts behind after a failure. */
export async function putInParts(store: ObjectStore, key: string, body: Body, options: Options): Promise<ObjectInfo> {
  const { contentType, size, signal, release } = options
  const partSize = Math.max(BUFFERED_PART, Math.ceil((size ?? 0) / MAX_PARTS))
  const blocks = blocksOf(body, partSize, release)
  const first = (await blocks.next()).value ?? Buffer.alloc(0)
  if (first.length < partSize) {
    if (size !== undefined && first.length !== size) throw wrongLength(size, first.length)
    return store.put(key, first, { contentType, ...(signal && { signal }) })
  }
  return inUpload(store, key, contentType, async (uploadId) => {
    const parts: PartInfo[] = []
    let total = 0
    for (let block: Buffer | undefined = first; block; block = (await blocks.next()).value ?? undefined) {
      total += block.length
      const part = { size: block.length, ...(signal && { signal }) }
      parts.push(await store.putPart(key, uploadId, parts.length + 1, Readable.from([block]), part))
    }
    if (size !== undefined && total !== size) throw wrongLength(size, total)
    return parts
  })
}

/** Blocks of exactly `size` bytes; only the last may be smaller. */
async function* blocksOf(body: Body, size: number, release?: Release): AsyncGenerator<Buffer, void, void> {
  let block = Buffer.allocUnsafe(size)
  let filled = 0
  for await (const chunk of chunksOf(body)) {
    for (let at = 0; at < chunk.length; ) {
      const copied = chunk.copy(block, filled, at)
      at += copied
      filled += copied
      if (filled < size) continue
      yield block
      block = Buffer.allocUnsafe(size)
      filled = 0
    }
    release?.(chunk)
  }
  if (filled > 0) yield block.subarray(0, filled)
}

interface FileOptions extends Options {
  size: number
  again<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T>
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
  return inUpload(store, key, contentType, async (uploadId) => {
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
  contentType: string,
  send: (uploadId: string) => Promise<PartInfo[]>,
): Promise<ObjectInfo> {
  const uploadId = await store.createMultipart(key, { contentType })
  try {
    return await store.completeMultipart(key, uploadId, await send(uploadId))
  } catch (error) {
    // Rethrow the original error, also when the abort fails.
    await store.abortMultipart(key, uploadId).catch(() => undefined)
    throw error
  }
}
