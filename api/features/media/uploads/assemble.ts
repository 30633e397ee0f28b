import { Readable } from 'node:stream'
import { originalKey, stagedChunkKey, stagingPrefix } from '../../../../lib/contract/object-keys.ts'
import { Problem } from '../../../../lib/contract/problem.ts'
import { type ObjectStore, StoreError } from '../../../../lib/runtime/object-store/object-store.ts'
import type { Chunk, UploadSession } from './queries.ts'

/** The store does not have these chunks as they were recorded. */
export class ChunkLost extends Error {
  override readonly name = 'ChunkLost'
  readonly chunks: readonly Chunk[]
  constructor(chunks: readonly Chunk[], options?: ErrorOptions) {
    super('chunks are not in the store as recorded', options)
    this.chunks = chunks
  }
}

/** The store no longer has the upload. */
export class UploadLost extends Error {
  override readonly name = 'UploadLost'
  readonly problem = new Problem('UPLOAD_EXPIRED', 'The upload has ended. Start another one.')
}

interface Work {
  upload: UploadSession
  chunks: readonly Chunk[]
  takenOver: boolean
}

/** Makes the object from the chunks. A second call makes the same object. Throws ChunkLost or UploadLost. */
export async function makeObject(store: ObjectStore, work: Work, signal: AbortSignal): Promise<void> {
  // The predecessor may have made the object: completing it again would fail, or copy everything once more.
  if (work.takenOver && (await isMade(store, work.upload))) return
  if (work.upload.multipartId) await complete(store, work, work.upload.multipartId, signal)
  else await join(store, work, signal)
}

async function isMade(store: ObjectStore, upload: UploadSession): Promise<boolean> {
  const info = await store.head(originalKey(upload.orgId, upload.mediaId))
  return info?.size === upload.fileSizeBytes
}

export const partsOf = (chunks: readonly Chunk[]) => chunks.map((c) => ({ partNumber: c.chunkIndex + 1, etag: c.etag }))

async function complete(
  store: ObjectStore,
  { upload, chunks }: Work,
  multipartId: string,
  signal: AbortSignal,
): Promise<void> {
  const key = originalKey(upload.orgId, upload.mediaId)
  // Without the lease a successor may have reopened the session: the parts may have been replaced since.
  signal.throwIfAborted()
  try {
    await store.completeMultipart(key, multipartId, partsOf(chunks))
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    if (error.code === 'InvalidPart')
      throw new ChunkLost(await lostParts(store, key, multipartId, chunks), { cause: error })
    if (error.code !== 'NotFound') throw error
    // Gone because it was completed, by this merge before an answer got lost or by its predecessor; or gone for good.
    if (!(await isMade(store, upload))) throw new UploadLost('the store no longer has the upload', { cause: error })
  }
}

async function lostParts(store: ObjectStore, key: string, multipartId: string, chunks: readonly Chunk[]) {
  const stored = new Map((await store.listParts(key, multipartId)).map((p) => [p.partNumber, p.etag]))
  return differing(chunks, (c) => stored.get(c.chunkIndex + 1))
}

async function lostObjects(store: ObjectStore, { orgId, id }: UploadSession, chunks: readonly Chunk[]) {
  const stored = new Map<string, string>()
  for await (const { key, etag } of store.list(stagingPrefix(orgId, id))) stored.set(key, etag)
  return differing(chunks, (c) => stored.get(stagedChunkKey(orgId, id, c.chunkIndex)))
}

function differing(chunks: readonly Chunk[], etagOf: (chunk: Chunk) => string | undefined): readonly Chunk[] {
  const lost = chunks.filter((c) => etagOf(c) !== c.etag)
  // A chunk replaced in the meantime looks intact by now; requesting all chunks again is better than an endless loop.
  return lost.length > 0 ? lost : chunks
}

/** Streams one object after the other through this process, with at most one buffer in memory. */
async function join(store: ObjectStore, { upload, chunks }: Work, signal: AbortSignal): Promise<void> {
  async function* content() {
    for (const chunk of chunks) yield* stagedChunk(store, chunk, signal)
  }
  const options = { contentType: upload.mimeType, size: upload.fileSizeBytes, signal }
  try {
    await store.put(originalKey(upload.orgId, upload.mediaId), Readable.from(content(), { objectMode: false }), options)
  } catch (error) {
    if (!(error instanceof StagedChunkLost)) throw error
    throw new ChunkLost(await lostObjects(store, upload, chunks), { cause: error })
  }
}

class StagedChunkLost extends Error {}

async function* stagedChunk(store: ObjectStore, chunk: Chunk, signal: AbortSignal): AsyncIterable<Buffer> {
  const key = stagedChunkKey(chunk.orgId, chunk.uploadId, chunk.chunkIndex)
  const found = await store.get(key, undefined, signal).catch((error: unknown) => {
    const isGone = error instanceof StoreError && error.code === 'NotFound'
    throw isGone ? new StagedChunkLost('gone', { cause: error }) : error
  })
  if (found.info.etag !== chunk.etag) {
    found.body.destroy()
    throw new StagedChunkLost('replaced')
  }
  yield* found.body
}
