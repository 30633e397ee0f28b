import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { originalKey } from '../../../../lib/contract/object-keys.ts'
import { Problem } from '../../../../lib/contract/problem.ts'
import { failpoint } from '../../../../lib/runtime/failpoint.ts'
import type { Read, Steps } from '../../../requests/request.ts'
import { timestamp } from '../../../requests/schemas.ts'
import { requireQuota } from '../../users/commands.ts'
import { requireFreePair } from '../commands.ts'
import { cleanFilename } from '../filename.ts'
import { type mediaActions, UPLOAD, type uploadActions } from '../policy.ts'
import type { PairedHalf } from '../queries.ts'
import { declaredKind } from '../sniff.ts'
import { planUpload, progressOf } from './plan.ts'
import { abortUpload, findUpload, insertUpload, listChunks } from './queries.ts'
import { tryReleaseStorage } from './release.ts'
import { permittedUpload, type UploadDeps } from './session.ts'
import type { StartedUpload, StartUpload, Upload } from './upload.ts'

const SIZE = 'body.file_size_bytes'

/** Starts a session. Its media id is fixed now, so that a merge that runs twice makes the same media item. */
export async function startUpload(
  { db, store, quotas }: UploadDeps,
  { read, answer, actor, orgId }: Steps<typeof mediaActions.upload>,
  request: StartUpload,
): Promise<StartedUpload> {
  const half = declaredHalf({ orgId, uploaderId: actor.userId }, request)
  const plan = await read(async ({ tx }) => {
    const planned = planUpload({
      fileBytes: request.file_size_bytes,
      chunkBytes: request.chunk_size_bytes,
      mimeType: request.mime_type,
    })
    if ('issue' in planned) throw refusal(planned)
    // First: what this user has already uploaded needs no storage.
    if (half) await requireFreePair(tx, half)
    await requireQuota(tx, actor.userId, quotas, { storedBytes: planned.fileBytes, openUploads: 1 }, SIZE)
    return planned
  })
  const [id, mediaId] = [newUuid(), newUuid()]
  const key = originalKey(orgId, mediaId)
  const multipartId =
    plan.layout === 'multipart' ? await store.createMultipart(key, { contentType: request.mime_type }) : null
  try {
    return await answer(async ({ tx }) => {
      await insertUpload(tx, {
        id,
        orgId,
        uploaderId: actor.userId,
        mediaId,
        layout: plan.layout,
        multipartId,
        filename: cleanFilename(request.filename),
        mimeType: request.mime_type,
        fileSizeBytes: plan.fileBytes,
        chunkSizeBytes: plan.chunkBytes,
        totalChunks: plan.totalChunks,
        checksumSha256: request.checksum_sha256 ?? null,
        livePhotoPairId: request.live_photo_pair_id ?? null,
        assetIdentifier: request.asset_identifier ?? null,
      })
      await requireQuota(tx, actor.userId, quotas, { storedBytes: 0, openUploads: 0 }, SIZE)
      return {
        upload_id: id,
        total_chunks: plan.totalChunks,
        chunk_size_bytes: plan.chunkBytes,
      }
    })
  } catch (error) {
    if (multipartId) await abandon({ db, store }, { orgId, id, key, multipartId })
    throw error
  }
}

/** The half of a Live Photo that a client says it sends. The bytes decide what it is, at the merge. */
function declaredHalf(
  of: { orgId: Uuid; uploaderId: Uuid },
  { mime_type, live_photo_pair_id: livePhotoPairId }: StartUpload,
): PairedHalf | undefined {
  const kind = declaredKind(mime_type)
  return kind && livePhotoPairId ? { ...of, kind, livePhotoPairId } : undefined
}

/** Aborts what the store holds, unless the session exists after all: then only the answer to the commit was lost. */
async function abandon(
  { db, store }: Pick<UploadDeps, 'db' | 'store'>,
  { orgId, id, key, multipartId }: { orgId: Uuid; id: Uuid; key: string; multipartId: string },
): Promise<void> {
  try {
    const session = await db.read({ org: orgId }, (tx) => findUpload(tx, orgId, id))
    if (!session) await store.abortMultipart(key, multipartId)
  } catch {
    // The lifecycle rule of the bucket ends what is left here.
  }
}

function refusal({ field, issue, tooLarge }: { field: string; issue: string; tooLarge: boolean }): Problem {
  const details = [{ field: `body.${field}`, issue }]
  return tooLarge
    ? new Problem('FILE_TOO_LARGE', 'The file is too large', { details, status: 422 })
    : new Problem('VALIDATION_ERROR', 'The request is not valid', { details })
}

export async function getUpload(request: Read<typeof uploadActions.read>, uploadId: Uuid): Promise<Upload> {
  const [upload, chunks] = await Promise.all([permittedUpload(request, uploadId), listChunks(request.tx, uploadId)])
  const { received, ranges } = progressOf(
    upload,
    chunks.map((c) => c.chunkIndex),
  )
  return {
    upload_id: upload.id,
    status: upload.state === 'open' && upload.pastExpiry ? 'expired' : upload.state,
    filename: upload.filename,
    mime_type: upload.mimeType,
    file_size_bytes: upload.fileSizeBytes,
    chunk_size_bytes: upload.chunkSizeBytes,
    total_chunks: upload.totalChunks,
    received_chunks: received,
    received_ranges: ranges,
    expires_at: timestamp(upload.expiresAt),
    media_id: upload.state === 'completed' ? upload.mediaId : null,
    error: upload.refusal && { code: upload.refusal.code, message: upload.refusal.message },
    can: request.now(UPLOAD, { ...upload, received }),
  }
}

/** Aborts a session and frees its storage. Succeeds too when the session has already ended without a media item. */
export async function endUpload(
  deps: UploadDeps,
  { write, context }: Steps<typeof uploadActions.abort>,
  uploadId: Uuid,
): Promise<void> {
  const upload = await write(async (request) => {
    const session = await permittedUpload(request, uploadId, { lock: true })
    request.ready(session)
    await abortUpload(request.tx, session.id)
    return session
  })
  failpoint('upload.aborted')
  await tryReleaseStorage(deps, upload, context.log)
}
