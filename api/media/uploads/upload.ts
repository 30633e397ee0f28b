import * as z from 'zod'
import { bodyId, outputId, outputTime, text } from '../../http/schemas.ts'
import { MimeType, PairingFields } from '../media.ts'
import { UPLOAD_LIMITS } from './plan.ts'

const Checksum = z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 lowercase hexadecimal digits')

export const StartUpload = z.object({
  filename: text(1, 255),
  mime_type: MimeType,
  file_size_bytes: z.int().min(1, 'must be at least 1'),
  chunk_size_bytes: z
    .int()
    .min(1, 'must be at least 1')
    .max(UPLOAD_LIMITS.chunkBytes, 'must be at most 64 MiB')
    .default(UPLOAD_LIMITS.defaultChunkBytes),
  checksum_sha256: Checksum.nullish().meta({
    description: 'SHA-256 of the whole file; the merge is refused when it differs',
  }),
  ...PairingFields,
})
export type StartUpload = z.output<typeof StartUpload>

export const StartedUpload = z
  .object({ upload_id: outputId('upload'), total_chunks: z.int(), chunk_size_bytes: z.int() })
  .meta({ id: 'StartedUpload' })
export type StartedUpload = z.input<typeof StartedUpload>

export const ReceivedChunk = z
  .object({
    upload_id: outputId('upload'),
    chunk_index: z.int(),
    size_bytes: z.int(),
    sha256: z.string(),
    received_chunks: z.int(),
    total_chunks: z.int(),
  })
  .meta({ id: 'ReceivedChunk' })
export type ReceivedChunk = z.input<typeof ReceivedChunk>

export const Upload = z
  .object({
    upload_id: outputId('upload'),
    status: z.enum(['open', 'merging', 'completed', 'aborted', 'expired']),
    filename: z.string(),
    mime_type: z.string(),
    file_size_bytes: z.int(),
    chunk_size_bytes: z.int(),
    total_chunks: z.int(),
    received_chunks: z.int(),
    received_ranges: z.array(z.tuple([z.int(), z.int()])).meta({
      description: 'First and last index of every run of chunks that have arrived',
      example: [
        [0, 4],
        [7, 7],
      ],
    }),
    expires_at: outputTime(),
    media_id: outputId('media').nullable().meta({ description: 'Null until merged' }),
  })
  .meta({ id: 'Upload' })
export type Upload = z.input<typeof Upload>

export const MergeUpload = z.object({
  upload_id: bodyId('upload'),
  checksum_sha256: Checksum.nullish().meta({
    description: 'SHA-256 of the whole file, checked besides the one given at the start',
  }),
})
export type MergeUpload = z.output<typeof MergeUpload>

/** The same to everybody who asks, however late: what happened since is told by GET media. */
export const MergedMedia = z
  .object({ media_id: outputId('media'), upload_status: z.literal('processing') })
  .meta({ id: 'MergedMedia' })
export type MergedMedia = z.input<typeof MergedMedia>
