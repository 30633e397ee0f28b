import * as z from 'zod'
import type { ApiDeps } from '../../../deps.ts'
import { inOrganization, type OrganizationDeps } from '../../../http/in-organization.ts'
import type { Route } from '../../../http/route.ts'
import { exampleId, pathId, wholeNumber } from '../../../requests/schemas.ts'
import { quotasOf } from '../../users/commands.ts'
import { UploadedMedia } from '../media.ts'
import { mediaActions, uploadActions } from '../policy.ts'
import { receiveChunk } from './chunk.ts'
import { endUpload, getUpload, startUpload } from './commands.ts'
import { ChunkDigests } from './digest.ts'
import { mergeUpload } from './merge.ts'
import { openMergedDigests } from './merged-digest.ts'
import { UPLOAD_LIMITS } from './plan.ts'
import type { UploadDeps } from './session.ts'
import { SingleFields, uploadSingle } from './single.ts'
import { MergedMedia, MergeUpload, ReceivedChunk, StartedUpload, StartUpload, Upload } from './upload.ts'

const InOrg = z.object({ org_id: pathId('organization') })
const OneUpload = InOrg.extend({ upload_id: pathId('upload') })
const OneChunk = OneUpload.extend({ chunk_index: wholeNumber(0, UPLOAD_LIMITS.chunks - 1) })
const tags = ['Storage']

const EXAMPLE = {
  filename: 'IMG_0042.MOV',
  mime_type: 'video/quicktime',
  file_size_bytes: 52_428_800,
  chunk_size_bytes: 8_388_608,
}

const UPLOADED: z.output<typeof UploadedMedia> = {
  media_id: exampleId('media'),
  org_id: exampleId('organization'),
  original_filename: 'IMG_0815.HEIC',
  mime_type: 'image/heic',
  file_size_bytes: 2_400_000,
  upload_status: 'processing',
  created_at: '2026-11-21T09:31:00.000Z',
  can: ['media.delete', 'media.read', 'media.read_location'],
}

/** Uploads of whole files, and of files in chunks. */
export function uploadRoutes(
  all: Omit<UploadDeps, 'quotas' | 'mergedDigest'> & OrganizationDeps & Pick<ApiDeps, 'config'>,
): Route[] {
  const deps = { ...all, quotas: quotasOf(all.config), mergedDigest: openMergedDigests(all) }
  const { read, steps } = inOrganization(deps)
  return [
    steps({
      method: 'post',
      path: '/api/media/{org_id}/single',
      operationId: 'uploadSingle',
      tags,
      summary: 'Upload a whole file of at most 100 MiB',
      description:
        'The API detects the type from the first bytes of the file, and refuses a file that is not an image or a video of a supported type. The conversion of a video begins at once, or after earlier ones of the organization have ended; the original can be fetched immediately. The API refuses a file that exceeds the caller’s remaining storage (`GET /api/users/me`) with `QUOTA_EXCEEDED`. `CONFLICT` means that the caller has another media item of the same kind with this `live_photo_pair_id`, and `details[].media_id` which; the API says so before it reads the file if the field comes before it.',
      problems: ['CONFLICT', 'FILE_TOO_LARGE', 'UNSUPPORTED_CONTENT_TYPE', 'QUOTA_EXCEEDED'],
      limit: 'single-upload',
      action: mediaActions.upload,
      params: InOrg,
      bodyKind: 'multipart',
      body: SingleFields,
      status: 201,
      response: UploadedMedia,
      // No pairing fields: a second file that is sent with those of the example would be paired with the first.
      examples: { request: {}, response: UPLOADED },
      handle: (request) => uploadSingle(deps, request, request.body),
    }),
    steps({
      method: 'post',
      path: '/api/media/{org_id}/upload',
      operationId: 'startUpload',
      tags,
      summary: 'Start an upload in chunks',
      description:
        'At most 10 GiB in 10,000 chunks of 1 byte to 64 MiB; chunks of less than 5 MiB are accepted for files of at most 512 MiB. An image may have 200 MiB. The session ends 24 hours after its last chunk, and at the latest 7 days after its start. `file_size_bytes` counts against the caller’s storage from now on. `QUOTA_EXCEEDED` means that the file exceeds the remaining storage (`details[].quota` is `storage`), or that the caller has too many open uploads (`open_uploads`) and must merge or abort one first. `CONFLICT` means that the caller has another media item of the same kind with this `live_photo_pair_id`, and `details[].media_id` which. `mime_type` tells the kind here.',
      problems: ['CONFLICT', 'FILE_TOO_LARGE', 'QUOTA_EXCEEDED'],
      limit: 'upload-init',
      action: mediaActions.upload,
      params: InOrg,
      body: StartUpload,
      status: 201,
      response: StartedUpload,
      examples: { request: EXAMPLE },
      handle: (request) => startUpload(deps, request, request.body),
    }),
    steps({
      method: 'put',
      path: '/api/media/{org_id}/upload/{upload_id}/{chunk_index}',
      operationId: 'putChunk',
      tags,
      summary: 'Send one chunk',
      description:
        'Chunks may arrive in any order, several at once. The index starts at 0; every chunk has `chunk_size_bytes` bytes except the last, which has the rest. Sending a chunk again replaces it. The API checks `Repr-Digest: sha-256=:…:` and `Content-MD5` when sent.',
      problems: ['CONFLICT', 'UPLOAD_EXPIRED', 'CHECKSUM_MISMATCH', 'UNSUPPORTED_CONTENT_TYPE'],
      limit: 'chunk',
      action: uploadActions.send,
      params: OneChunk,
      headers: ChunkDigests,
      bodyKind: 'bytes',
      status: 200,
      response: ReceivedChunk,
      handle: (request) => {
        const { upload_id: uploadId, chunk_index: index } = request.params
        return receiveChunk(deps, request, { uploadId, index, body: request.body, field: 'path.chunk_index' })
      },
    }),
    read({
      method: 'get',
      path: '/api/media/{org_id}/upload/{upload_id}',
      operationId: 'getUpload',
      tags,
      summary: 'Show which chunks have arrived, to resume an upload',
      action: uploadActions.read,
      description:
        'Only the user who started the upload can see it, until 7 days after its end. Then the answer is 404, as to a repeated merge.',
      params: OneUpload,
      response: Upload,
      handle: (request) => getUpload(request, request.params.upload_id),
    }),
    steps({
      method: 'delete',
      path: '/api/media/{org_id}/upload/{upload_id}',
      operationId: 'abortUpload',
      tags,
      summary: 'Abort an upload and free what it holds',
      problems: ['CONFLICT'],
      action: uploadActions.abort,
      description:
        'Aborting an upload that has been aborted or has expired succeeds. While a request merges it, and after, the answer is 409. An upload whose merge failed without a decision, as after `SERVICE_UNAVAILABLE`, can be aborted, at the latest 30 seconds later.',
      params: OneUpload,
      status: 204,
      handle: (request) => endUpload(deps, request, request.params.upload_id),
    }),
    steps({
      method: 'post',
      path: '/api/media/{org_id}/merge',
      operationId: 'mergeUpload',
      tags,
      summary: 'Make one media item from all chunks',
      description:
        'Repeated requests make only one media item: the answer is 201 the first time, and 200 with the same body after that, for 7 days. `details[].missing` lists up to 100 chunks that have not arrived. If the file does not match a checksum given at the start or in this request (`CHECKSUM_MISMATCH`), is not of a supported type (`UNSUPPORTED_MEDIA`), or is an image of more than 200 MiB (`FILE_TOO_LARGE`), or if another media item of the caller has got its `live_photo_pair_id` since the start (`CONFLICT`, with `details[].media_id`), the API aborts the upload and deletes its chunks: start another one. A repeat is refused in the same way for 7 days, whatever checksum it has. A repeat with a wrong checksum after a successful merge is refused and changes nothing.',
      problems: [
        'CONFLICT',
        'FILE_TOO_LARGE',
        'UPLOAD_INCOMPLETE',
        'UPLOAD_EXPIRED',
        'CHECKSUM_MISMATCH',
        'UNSUPPORTED_MEDIA',
      ],
      action: uploadActions.merge,
      params: InOrg,
      body: MergeUpload,
      status: 201,
      alsoStatus: { 200: 'Merged by an earlier request' },
      response: MergedMedia,
      examples: { request: { upload_id: exampleId('upload') } },
      handle: (request) => mergeUpload(deps, request, request.body),
    }),
  ]
}
