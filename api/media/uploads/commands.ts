import { formatId, newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { originalKey } from '../../../lib/contract/object-keys.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { Actor } from '../../auth/actor.ts'
import type { Context } from '../../http/route.ts'
import { timestamp } from '../../http/schemas.ts'
import { requireMember } from '../../organizations/membership.ts'
import { cleanFilename } from '../filename.ts'
import { planUpload, rangesOf } from './plan.ts'
import { abortUpload, insertUpload, listChunks } from './queries.ts'
import { tryReleaseStorage } from './release.ts'
import { notOpen, requireUpload, type UploadAddress, type UploadDeps } from './session.ts'
import type { StartUpload, Upload } from './upload.ts'

/** Begins a session. Its media id is fixed now, so that a merge that runs twice makes the same media. */
export async function startUpload(
  { db, store }: UploadDeps,
  o: { actor: Actor; orgId: Uuid; request: StartUpload; context: Context },
) {
  const { actor, orgId, request, context } = o
  const plan = planUpload({
    fileBytes: request.file_size_bytes,
    chunkBytes: request.chunk_size_bytes,
    mimeType: request.mime_type,
  })
  await db.read({ org: orgId }, (tx) => requireMember(tx, actor, orgId))
  if ('issue' in plan) throw refusal(plan)
  const [id, mediaId] = [newUuid(), newUuid()]
  const key = originalKey(orgId, mediaId)
  const multipartId =
    plan.layout === 'multipart' ? await store.createMultipart(key, { contentType: request.mime_type }) : null
  try {
    return await db.inTransaction({ org: orgId }, async (tx) => {
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
      const data = {
        upload_id: formatId('upload', id),
        total_chunks: plan.totalChunks,
        chunk_size_bytes: plan.chunkBytes,
      }
      await context.remember(tx, 201, data)
      return data
    })
  } catch (error) {
    if (multipartId) await store.abortMultipart(key, multipartId).catch(() => {})
    throw error
  }
}

function refusal({ field, issue, tooLarge }: { field: string; issue: string; tooLarge: boolean }): Problem {
  const details = [{ field: `body.${field}`, issue }]
  return tooLarge
    ? new Problem('FILE_TOO_LARGE', 'The file is too large', { details, status: 422 })
    : new Problem('VALIDATION_ERROR', 'The request is not valid', { details })
}

export async function getUpload({ db }: UploadDeps, address: UploadAddress): Promise<Upload> {
  const { upload, indexes } = await db.read({ org: address.orgId }, async (tx) => {
    const [upload, chunks] = await Promise.all([requireUpload(tx, address), listChunks(tx, address.uploadId)])
    return { upload, indexes: chunks.map((c) => c.chunkIndex) }
  })
  return {
    upload_id: formatId('upload', upload.id),
    status: upload.state === 'open' && upload.pastExpiry ? 'expired' : upload.state,
    filename: upload.filename,
    mime_type: upload.mimeType,
    file_size_bytes: upload.fileSizeBytes,
    chunk_size_bytes: upload.chunkSizeBytes,
    total_chunks: upload.totalChunks,
    received_chunks: indexes.length,
    received_ranges: rangesOf(indexes),
    expires_at: timestamp(upload.expiresAt),
    media_id: upload.state === 'completed' ? formatId('media', upload.mediaId) : null,
  }
}

/** Ends a session and frees what it holds. Ending what has ended without a media is success. */
export async function endUpload(deps: UploadDeps, o: UploadAddress & { context: Context }): Promise<void> {
  const upload = await deps.db.inTransaction({ org: o.orgId }, async (tx) => {
    const found = await requireUpload(tx, o, { lock: true })
    if (found.state === 'merging' || found.state === 'completed') throw notOpen(found)
    await abortUpload(tx, found.id)
    return found
  })
  failpoint('upload.aborted')
  await tryReleaseStorage(deps, upload, o.context.log)
}
