import * as z from 'zod'
import { sizeText } from '../../../../lib/contract/size.ts'
import { Can } from '../../../permissions/can.ts'
import { bodyId, outputId, outputTime, text, withDefault } from '../../../requests/schemas.ts'
import { FileSize, MimeType, PairingFields } from '../media.ts'
import { UPLOAD_LIMITS } from './plan.ts'

const Checksum = z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 lowercase hexadecimal digits')
const ChunkSize = z.int().min(1).max(UPLOAD_LIMITS.chunkBytes)
const ChunkCount = z.int().min(1).max(UPLOAD_LIMITS.chunks)
export const ChunkIndex = z
  .int()
  .min(0)
  .max(UPLOAD_LIMITS.chunks - 1)

export const StartUpload = z.object({
  filename: text(1, 255),
  mime_type: MimeType,
  file_size_bytes: z.int().min(1, 'must be at least 1').meta({ maximum: UPLOAD_LIMITS.fileBytes }),
  chunk_size_bytes: withDefault(
    z
      .int()
      .min(1, 'must be at least 1')
      .max(UPLOAD_LIMITS.chunkBytes, `must be at most ${sizeText(UPLOAD_LIMITS.chunkBytes)}`),
    UPLOAD_LIMITS.defaultChunkBytes,
  ),
  checksum_sha256: Checksum.nullish().meta({
    description: 'SHA-256 of the whole file; the API refuses the merge when it differs',
  }),
  ...PairingFields,
})
export type StartUpload = z.output<typeof StartUpload>

export const StartedUpload = z
  .object({ upload_id: outputId('upload'), total_chunks: ChunkCount, chunk_size_bytes: ChunkSize })
  .meta({ id: 'StartedUpload' })
export type StartedUpload = z.input<typeof StartedUpload>

export const ReceivedChunk = z
  .object({
    upload_id: outputId('upload'),
    chunk_index: ChunkIndex,
    size_bytes: ChunkSize,
    sha256: Checksum,
    received_chunks: ChunkCount,
    total_chunks: ChunkCount,
  })
  .meta({ id: 'ReceivedChunk' })
export type ReceivedChunk = z.input<typeof ReceivedChunk>

export const Upload = z
  .object({
    upload_id: outputId('upload'),
    status: z.enum(['open', 'merging', 'completed', 'aborted', 'expired']).meta({ id: 'UploadSessionStatus' }),
    filename: z.string(),
    mime_type: z.string(),
    file_size_bytes: FileSize,
    chunk_size_bytes: ChunkSize,
    total_chunks: ChunkCount,
    received_chunks: z.int().min(0).max(UPLOAD_LIMITS.chunks),
    received_ranges: z.array(z.array(ChunkIndex).length(2)).meta({
      description:
        'First and last index of every run of chunks that have arrived. Of a completed upload all; none once an upload that ended otherwise has lost its chunks',
      example: [
        [0, 4],
        [7, 7],
      ],
    }),
    expires_at: outputTime(),
    media_id: outputId('media').nullable().meta({ description: 'Null until merged' }),
    error: z
      .object({ code: z.string(), message: z.string() })
      .meta({ id: 'MergeError' })
      .nullable()
      .meta({ description: 'Why the merge was refused, as it was answered; set when that aborted the upload' }),
    can: Can,
  })
  .meta({ id: 'Upload' })
export type Upload = z.input<typeof Upload>

export const MergeUpload = z.object({
  upload_id: bodyId('upload'),
  checksum_sha256: Checksum.nullish().meta({
    description: 'SHA-256 of the whole file, checked in addition to the one given at the start',
  }),
})
export type MergeUpload = z.output<typeof MergeUpload>

/** The same for every request, however late; GET media shows what has happened since. */
export const MergedMedia = z
  .object({ media_id: outputId('media'), upload_status: z.literal('processing') })
  .meta({ id: 'MergedMedia' })
export type MergedMedia = z.input<typeof MergedMedia>
