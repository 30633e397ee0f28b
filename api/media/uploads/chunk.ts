import type { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { formatId } from '../../../lib/contract/ids.ts'
import { originalKey, stagedChunkKey } from '../../../lib/contract/object-keys.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import { type ObjectStore, StoreError } from '../../../lib/runtime/object-store.ts'
import type { BytesBody, Context } from '../../http/route.ts'
import { checking, parseContentMd5, parseReprDigest, wrongLength } from './digest.ts'
import { freeBuffer } from './free-buffer.ts'
import { lengthOfChunk } from './plan.ts'
import { type Chunk, countChunks, extendOpenUpload, type UploadSession, upsertChunk } from './queries.ts'
import { isOpen, notOpen, planOf, requireUpload, type UploadAddress, type UploadDeps } from './session.ts'
import type { ReceivedChunk } from './upload.ts'

/** Takes one chunk, in any order, again and again: the last one wins until the merge. Recorded only when all is right. */
export async function receiveChunk(
  deps: UploadDeps,
  o: UploadAddress & { index: number; body: BytesBody; context: Context },
): Promise<ReceivedChunk> {
  const { index, body, context } = o
  const expected = {
    md5: parseContentMd5(body.headers['content-md5'] as string | undefined),
    sha256: parseReprDigest(body.headers['repr-digest'] as string | undefined),
  }
  const upload = await deps.db.read({ org: o.orgId }, (tx) => requireUpload(tx, o))
  if (!isOpen(upload)) throw notOpen(upload)
  if (index >= upload.totalChunks) {
    const details = [{ field: 'path.chunk_index', issue: `must be below ${upload.totalChunks}` }]
    throw new Problem('VALIDATION_ERROR', 'There is no chunk with this index', { details })
  }
  const size = lengthOfChunk(planOf(upload), index)
  if (body.length !== undefined && body.length !== size) throw wrongLength(size)

  const { stream: check, sha256 } = checking({ size, ...expected })
  const etag = await storeChunk(deps.store, upload, { index, size, body, check, signal: context.signal })
  failpoint('chunk.stored')
  const chunk = { orgId: o.orgId, uploadId: upload.id, chunkIndex: index, sizeBytes: size, sha256: sha256() }
  const received = etag === undefined ? undefined : await recordChunk(deps, { ...chunk, etag })
  if (received === undefined) throw await tooLate(deps, o, upload)
  return {
    upload_id: formatId('upload', upload.id),
    chunk_index: index,
    size_bytes: size,
    sha256: chunk.sha256,
    received_chunks: received,
    total_chunks: upload.totalChunks,
  }
}

/** What the store calls the chunk; undefined when it has forgotten the upload. */
async function storeChunk(
  store: ObjectStore,
  upload: UploadSession,
  o: { index: number; size: number; body: BytesBody; check: Transform; signal: AbortSignal },
): Promise<string | undefined> {
  const { index, size, check, signal } = o
  const { orgId, mediaId, multipartId } = upload
  // The bytes of the request are ours alone, and nobody looks back at them.
  const options = { size, signal, release: freeBuffer }
  // Errors of the body travel through `check` into the store, and come back to us as what the store throws.
  const feeding = pipeline(o.body.stream, check).catch(() => {})
  try {
    if (multipartId) {
      const part = await store.putPart(originalKey(orgId, mediaId), multipartId, index + 1, check, options)
      return part.etag
    }
    const key = stagedChunkKey(orgId, upload.id, index)
    return (await store.put(key, check, { contentType: 'application/octet-stream', ...options })).etag
  } catch (error) {
    if (error instanceof StoreError && error.code === 'NotFound') return undefined
    throw error
  } finally {
    check.destroy()
    await feeding
  }
}

async function recordChunk({ db }: UploadDeps, chunk: Chunk): Promise<number | undefined> {
  return db.inTransaction({ org: chunk.orgId }, async (tx) => {
    if (!(await extendOpenUpload(tx, chunk.uploadId))) return undefined
    await upsertChunk(tx, chunk)
    return countChunks(tx, chunk.uploadId)
  })
}

/** The session ended while the chunk was on its way: what was staged for it has nobody to remove it but us. */
async function tooLate({ db, store }: UploadDeps, address: UploadAddress & { index: number }, before: UploadSession) {
  const now = await db.read({ org: address.orgId }, (tx) => requireUpload(tx, address))
  // A merge that is still running may need what lies there; it cleans up itself.
  if (before.layout === 'staged' && now.state !== 'merging') {
    await store.delete(stagedChunkKey(address.orgId, address.uploadId, address.index))
  }
  return notOpen(now)
}
