import type { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Uuid } from '../../../../lib/contract/ids.ts'
import { originalKey, stagedChunkKey } from '../../../../lib/contract/object-keys.ts'
import { Problem } from '../../../../lib/contract/problem.ts'
import { failpoint } from '../../../../lib/runtime/failpoint.ts'
import { type ObjectStore, StoreError } from '../../../../lib/runtime/object-store/object-store.ts'
import type { BytesBody } from '../../../requests/bytes.ts'
import { found } from '../../../requests/found.ts'
import type { Steps } from '../../../requests/request.ts'
import type { uploadActions } from '../policy.ts'
import { checking, parseContentMd5, parseReprDigest, wrongLength } from './digest.ts'
import { freeBuffer } from './free-buffer.ts'
import { lengthOfChunk } from './plan.ts'
import {
  type Chunk,
  countChunks,
  extendOpenUpload,
  findUpload,
  isUploadKept,
  type UploadSession,
  upsertChunk,
} from './queries.ts'
import { isOpen, notOpen, permittedUpload, planOf, type UploadDeps } from './session.ts'
import type { ReceivedChunk } from './upload.ts'

/** Receives one chunk, in any order and repeatedly: the last one wins until the merge. Records it after all checks. */
export async function receiveChunk(
  deps: UploadDeps,
  steps: Steps<typeof uploadActions.send>,
  o: { uploadId: Uuid; index: number; body: BytesBody /** What names the index. */; field: string },
): Promise<ReceivedChunk> {
  const { uploadId, index, body } = o
  const expected = {
    md5: parseContentMd5(body.headers['content-md5'] as string | undefined),
    sha256: parseReprDigest(body.headers['repr-digest'] as string | undefined),
  }
  const upload = await steps.read(async (request) => {
    const session = await permittedUpload(request, uploadId)
    request.ready(session)
    return session
  })
  if (index >= upload.totalChunks) {
    const details = [{ field: o.field, issue: `must be below ${upload.totalChunks}` }]
    throw new Problem('VALIDATION_ERROR', 'There is no chunk with this index', { details })
  }
  const size = lengthOfChunk(planOf(upload), index)
  if (body.length !== undefined && body.length !== size) throw wrongLength(size)

  const { stream: check, sha256 } = checking({ size, ...expected })
  const etag = await storeChunk(deps.store, upload, { index, size, body, check, signal: steps.context.signal })
  failpoint('chunk.stored')
  const chunk = { orgId: upload.orgId, uploadId, chunkIndex: index, sizeBytes: size, sha256: sha256() }
  const received =
    etag === undefined
      ? undefined
      : await recordChunk(steps, { ...chunk, etag }).catch(async (error: unknown) => {
          await dropOrphan(deps, upload, index)
          throw error
        })
  if (received === undefined) throw await tooLate(deps, upload, { index, isStored: etag !== undefined })
  return {
    upload_id: upload.id,
    chunk_index: index,
    size_bytes: size,
    sha256: chunk.sha256,
    received_chunks: received,
    total_chunks: upload.totalChunks,
  }
}

/** Returns the entity tag of the stored chunk; undefined when the store no longer has the upload. */
async function storeChunk(
  store: ObjectStore,
  upload: UploadSession,
  o: { index: number; size: number; body: BytesBody; check: Transform; signal: AbortSignal },
): Promise<string | undefined> {
  const { index, size, check, signal } = o
  const { orgId, mediaId, multipartId } = upload
  // No other code reads the buffers of the request, and this code reads each only once.
  const options = { size, signal, release: freeBuffer }
  // Errors of the body pass through `check` into the store, which throws them.
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

function recordChunk({ write }: Steps<typeof uploadActions.send>, chunk: Chunk): Promise<number | undefined> {
  return write(async ({ tx }) => {
    if (!(await extendOpenUpload(tx, chunk.uploadId))) return undefined
    await upsertChunk(tx, chunk)
    return countChunks(tx, chunk.uploadId)
  })
}

/** The caller may no longer send: they have left, or their account was closed, and the session may have gone with its prefix. */
async function dropOrphan(deps: UploadDeps, before: UploadSession, index: number): Promise<void> {
  const now = await deps.db.read({ org: before.orgId }, (tx) => findUpload(tx, before.orgId, before.id))
  await dropUnwanted(deps, { before, now, index })
}

/** The session was not open when the chunk had arrived. */
async function tooLate(
  deps: UploadDeps,
  before: UploadSession,
  { index, isStored }: { index: number; isStored: boolean },
): Promise<Problem> {
  const { orgId, id } = before
  const now = found(await deps.db.read({ org: orgId }, (tx) => findUpload(tx, orgId, id)))
  // A merge that failed has reopened the session since.
  if (isStored && isOpen(now)) {
    return new Problem('CONFLICT', 'The upload was being merged, and is open again', { retryAfter: 1 })
  }
  if (isStored) await dropUnwanted(deps, { before, now, index })
  return notOpen(now)
}

/**
 * Removes a stored chunk that was not recorded, if its session has ended: what removes the chunks of an ended session may
 * have been there before. If this process dies first, `sweepStaging` finds the chunk.
 */
async function dropUnwanted(
  { db, store }: UploadDeps,
  { before, now, index }: { before: UploadSession; now: UploadSession | undefined; index: number },
): Promise<void> {
  const { orgId, id, layout } = before
  // In an open session it may be the chunk that another request recorded. A merge may need it, and removes it afterwards.
  const isWanted = now !== undefined && (isOpen(now) || now.state === 'merging')
  if (layout !== 'staged' || isWanted) return
  // It may have replaced a chunk that a hold keeps. All of them go once the hold ends.
  if (await db.read({ org: orgId }, (tx) => isUploadKept(tx, id))) return
  await store.deleteForGood(stagedChunkKey(orgId, id, index))
}
