import * as z from 'zod'
import { CONVERSION_ERROR_CODES } from '../../lib/contract/conversion-error.ts'
import { outputId, outputTime, text } from '../http/schemas.ts'

export const UploadStatus = z
  .enum(['processing', 'completed', 'failed'])
  .meta({ description: 'failed: the conversion gave up; the original stays deliverable' })

/** Links live for at least `expires_in` seconds; a key whose result does not exist is null. */
export const Variants = z.object({
  image_url: z.string().nullable(),
  image_webp_url: z.string().nullable(),
  hls_master_url: z.string().nullable().meta({
    description: 'HLS master playlist. There as soon as one rendition can be played, also while `processing`',
  }),
  live_photo_video_url: z.string().nullable(),
  asset_identifier: z.string().nullable(),
})

export const ConversionProgress = z
  .object({
    percent: z.number().min(0).max(100),
    speed: z.string().nullable().meta({ description: 'Media seconds per second', example: '1.8x' }),
    eta_sec: z.number().nullable(),
    stage: z.string().nullable(),
  })
  .nullable()
  .meta({ description: 'How far the conversion is; null when none is running' })

export const ConversionError = z
  .object({
    code: z.enum(CONVERSION_ERROR_CODES),
    message: z.string(),
  })
  .nullable()

/** A media as lists and details show it. */
export const Media = z
  .object({
    media_id: outputId('media'),
    org_id: outputId('organization'),
    uploader_id: outputId('user'),
    original_filename: z.string(),
    mime_type: z.string().meta({ description: 'By the first bytes of the file, not by what the client said' }),
    file_size_bytes: z.int(),
    upload_status: UploadStatus,
    created_at: outputTime(),
    original_url: z.string().meta({
      description: 'The untouched original, as an attachment. It holds whatever the camera wrote, also the place.',
    }),
    expires_in: z.int(),
    variants: Variants,
    conversion_progress: ConversionProgress,
  })
  .meta({ id: 'Media' })
export type Media = z.input<typeof Media>

/** The answer to a whole upload. */
export const UploadedMedia = z
  .object({
    media_id: outputId('media'),
    org_id: outputId('organization'),
    original_filename: z.string(),
    mime_type: z.string(),
    file_size_bytes: z.int(),
    upload_status: UploadStatus,
    created_at: outputTime(),
  })
  .meta({ id: 'UploadedMedia' })
export type UploadedMedia = z.input<typeof UploadedMedia>

export const MediaMetadata = z
  .object({
    media_id: outputId('media'),
    captured_at: outputTime().nullable(),
    width: z.int().nullable().meta({ description: 'Pixels, as shown' }),
    height: z.int().nullable(),
    duration_sec: z.number().nullable(),
    orientation: z.int().min(1).max(8).nullable().meta({ description: 'As in EXIF: 1 is upright' }),
    camera: z.object({ make: z.string().nullable(), model: z.string().nullable() }),
    location: z
      .object({ latitude: z.number(), longitude: z.number() })
      .nullable()
      .meta({ description: 'Shown to the uploader and to admins of the organization only' }),
    exif: z.record(z.string(), z.string()),
    conversion: z.object({
      state: z.enum(['queued', 'running', 'succeeded', 'failed']),
      attempts: z.int(),
      started_at: outputTime().nullable(),
      finished_at: outputTime().nullable(),
      error: ConversionError,
      progress: ConversionProgress,
      renditions: z.array(
        z.object({
          name: z.string(),
          width: z.int(),
          height: z.int(),
          bandwidth: z.int(),
          codecs: z.string(),
          frame_rate: z.number(),
        }),
      ),
    }),
  })
  .meta({ id: 'MediaMetadata' })
export type MediaMetadata = z.input<typeof MediaMetadata>

const MIME = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,63}\/([a-z0-9][a-z0-9!#$&^_.+-]{0,63}|\*)$/

/** `video/mp4`, or `image/*` for all of a kind. */
export const MimeFilter = z
  .string()
  .overwrite((text) => text.trim().toLowerCase())
  .regex(MIME, 'must look like video/mp4 or image/*')
  .meta({ description: 'A type, or all of a kind: `image/*`', example: 'video/*' })

/** A type as a client names it; the first bytes decide. */
export const MimeType = z
  .string()
  .max(127)
  .overwrite((text) => text.trim().toLowerCase())
  .regex(MIME, 'must look like video/mp4')
  .refine((text) => !text.endsWith('*'), 'must name one type')
  .meta({ example: 'video/mp4' })

const emptyIsAbsent = (value: unknown) => (value === '' ? undefined : value)

/** What pairs the two halves of a Live Photo. A form sends what is not filled in as empty text. */
export const PairingFields = {
  live_photo_pair_id: z
    .preprocess(emptyIsAbsent, z.guid().toLowerCase().nullish())
    .meta({ description: 'The same UUID for the image and the video of a Live Photo' }),
  asset_identifier: z
    .preprocess(emptyIsAbsent, text(1, 255).nullish())
    .meta({ description: 'Identifier that the phone gave to both' }),
}
