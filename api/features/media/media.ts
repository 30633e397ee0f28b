import * as z from 'zod'
import { CONVERSION_ERROR_CODES } from '../../../lib/contract/conversion-error.ts'
import { Can } from '../../permissions/can.ts'
import { outputId, outputTime, text, textPattern } from '../../requests/schemas.ts'
import { MEDIA_SORTS } from './sorts.ts'
import { UPLOAD_LIMITS } from './uploads/plan.ts'

export const UploadStatus = z
  .enum(['processing', 'completed', 'failed'])
  .meta({ id: 'UploadStatus', description: 'failed: the conversion failed; the original can still be fetched' })

/** Size of a whole file. */
export const FileSize = z.int().min(0).max(UPLOAD_LIMITS.fileBytes)
/** The largest width or height, far above what any supported codec accepts. */
const Pixels = z.int().min(1).max(65_536)

/** Links work for at least `expires_in` seconds; a key whose result does not exist is null. */
export const Variants = z
  .object({
    image_url: z.string().nullable().meta({
      description: 'A JPEG, or the original where every browser shows it and it contains no location. Null for a video',
    }),
    image_webp_url: z.string().nullable().meta({
      description: 'WebP whose long side is at most 2048 pixels; of a video, a frame',
    }),
    image_thumb_url: z.string().nullable().meta({
      description: 'WebP for grids, whose long side is at most 512 pixels; of a video, a frame',
    }),
    hls_master_url: z.string().nullable().meta({
      description:
        'HLS master playlist. Present as soon as one rendition can be played, even while `processing`. All renditions are H.264. Where `conversion.renditions` has one more of HEVC, `master-hevc.m3u8` in the place of `master.m3u8` lists it too; players that prefer HEVC then have no other rendition for a slow network',
    }),
    live_photo_video_url: z.string().nullable().meta({
      description: 'HLS master playlist of the video of a Live Photo, as soon as it can be played. Null for the video',
    }),
    asset_identifier: z.string().nullable(),
  })
  .meta({ id: 'Variants', description: 'Derivatives of the original; null for one that does not exist' })

export const Progress = z
  .object({
    percent: z.number().min(0).max(100),
    speed: z.string().nullable().meta({ description: 'Media seconds per second', example: '1.8x' }),
    eta_sec: z.number().min(0).nullable(),
    stage: z.string().nullable(),
  })
  .meta({ id: 'ConversionProgress', description: 'Progress of the conversion' })

export const ConversionError = z
  .object({
    code: z.enum(CONVERSION_ERROR_CODES).meta({ id: 'ConversionErrorCode' }),
    message: z.string(),
  })
  .meta({ id: 'ConversionError' })

const Rendition = z
  .object({
    name: z.string(),
    width: Pixels,
    height: Pixels,
    bandwidth: z
      .int()
      .min(1)
      .max(2 ** 31 - 1)
      .meta({ description: 'Peak bits per second, audio included' }),
    codecs: z.string().meta({ description: 'As in RFC 6381. That of HEVC begins with `hvc1`' }),
    frame_rate: z.number().min(0),
  })
  .meta({ id: 'Rendition' })

const Conversion = z
  .object({
    state: z.enum(['queued', 'running', 'succeeded', 'failed']).meta({ id: 'ConversionState' }),
    attempts: z.int().min(0).max(1000),
    started_at: outputTime().nullable(),
    finished_at: outputTime().nullable(),
    error: ConversionError.nullable(),
    progress: Progress.nullable(),
    renditions: z.array(Rendition),
  })
  .meta({ id: 'Conversion' })

const Camera = z.object({ make: z.string().nullable(), model: z.string().nullable() }).meta({ id: 'Camera' })

const Location = z
  .object({ latitude: z.number().min(-90).max(90), longitude: z.number().min(-180).max(180) })
  .meta({ id: 'Location', description: 'Only for the uploader and for owners and administrators of the organization' })

/** A media item as lists and details show it. */
export const Media = z
  .object({
    media_id: outputId('media'),
    org_id: outputId('organization'),
    uploader_id: outputId('user'),
    original_filename: z.string(),
    mime_type: z.string().meta({ description: 'Detected from the first bytes of the file, not taken from the client' }),
    file_size_bytes: FileSize,
    upload_status: UploadStatus,
    created_at: outputTime(),
    captured_at: outputTime().nullable().meta({ description: 'When it was taken; null where the file does not say' }),
    original_url: z.string().meta({
      description: 'The unchanged original, as an attachment. It contains all that the camera wrote, the location too.',
    }),
    expires_in: z.int().min(1).max(86_400).meta({ description: 'Minimum number of seconds for which the links work' }),
    variants: Variants,
    placeholder: z.string().nullable().meta({
      description: 'Thumbhash in base64: a blurred picture that a client draws before it loads any other',
    }),
    conversion_progress: Progress.nullable().meta({ description: 'Null when no conversion is running' }),
    can: Can,
  })
  .meta({ id: 'Media' })
export type Media = z.input<typeof Media>

/** Months are those of UTC, and of the order `captured_at`. */
export const MediaMonths = z
  .object({
    months: z.array(
      z
        .object({
          month: z.string().meta({ pattern: '^\\d{4}-\\d{2}$', example: '2026-05' }),
          count: z
            .int()
            .min(1)
            .max(2 ** 31 - 1),
        })
        .meta({ id: 'MediaMonth' }),
    ),
  })
  .meta({ id: 'MediaMonths' })

/** The answer to an upload of a whole file. */
export const UploadedMedia = z
  .object({
    media_id: outputId('media'),
    org_id: outputId('organization'),
    original_filename: z.string(),
    mime_type: z.string(),
    file_size_bytes: FileSize,
    upload_status: UploadStatus,
    created_at: outputTime(),
    can: Can,
  })
  .meta({ id: 'UploadedMedia' })
export type UploadedMedia = z.input<typeof UploadedMedia>

export const MediaMetadata = z
  .object({
    media_id: outputId('media'),
    captured_at: outputTime().nullable(),
    width: Pixels.nullable().meta({ description: 'Pixels, as displayed' }),
    height: Pixels.nullable(),
    duration_sec: z
      .number()
      .min(0)
      .nullable()
      .meta({ description: 'Of a video as it plays; null for anything else, and until it is known' }),
    live_photo_duration_sec: z
      .number()
      .min(0)
      .nullable()
      .meta({ description: 'Of the moving part of a Live Photo; null for anything else, and until it is known' }),
    orientation: z.int().min(1).max(8).nullable().meta({ description: 'As in EXIF: 1 is upright' }),
    camera: Camera,
    location: Location.nullable(),
    exif: z.record(z.string(), z.string()),
    conversion: Conversion,
  })
  .meta({ id: 'MediaMetadata' })
export type MediaMetadata = z.input<typeof MediaMetadata>

const MIME = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,63}\/([a-z0-9][a-z0-9!#$&^_.+-]{0,63}|\*)$/

const NAME = '[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,63}'
/** For JSON Schema: what requests may contain, before the API trims and lowercases it. */
const givenMime = (subtype: string) => `^\\s*${NAME}/${subtype}\\s*$`

/** `video/mp4`, or `image/*` for all types of a kind. */
export const MimeFilter = z
  .string()
  .overwrite((text) => text.trim().toLowerCase())
  .regex(MIME, 'must look like video/mp4 or image/*')
  .meta({
    pattern: givenMime(`(?:${NAME}|\\*)`),
    description: 'A type, or all types of a kind: `image/*`',
    example: 'video/*',
  })

/** Orders of a list, newest first. */
export const MediaOrder = z
  .enum(MEDIA_SORTS)
  .default('created_at')
  .meta({ id: 'MediaSort', description: '`captured_at`: media items without one are sorted by `created_at`' })

/** The type that a client declares; the first bytes of the file decide. */
export const MimeType = z
  .string()
  .max(127)
  .overwrite((text) => text.trim().toLowerCase())
  .regex(MIME, 'must look like video/mp4')
  .refine((text) => !text.endsWith('*'), 'must name one type')
  .meta({ pattern: givenMime(NAME), example: 'video/mp4' })

const GUID = '[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}'
const PairId = z.guid().toLowerCase()
const PAIR_ID = { description: 'The same UUID for the image and the video of a Live Photo' }
const AssetIdentifier = text(1, 255)
const ASSET = { description: 'Identifier that the phone gave to both the image and the video' }

/** What pairs the two halves of a Live Photo. */
export const PairingFields = {
  live_photo_pair_id: PairId.nullish().meta(PAIR_ID),
  asset_identifier: AssetIdentifier.nullish().meta(ASSET),
}

const orEmpty = <T extends z.ZodType>(schema: T) =>
  z.preprocess((value) => (value === '' ? undefined : value), schema.optional())

/** In the OpenAPI document: plain text, which may be empty. */
const emptyOr =
  (pattern: string) =>
  ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) => {
    for (const name of ['format', 'minLength']) delete jsonSchema[name]
    Object.assign(jsonSchema, { type: 'string', pattern })
  }

/** The same fields in a form, which sends an empty field as empty text. */
export const PairingForm = {
  live_photo_pair_id: orEmpty(PairId).meta({ ...PAIR_ID, override: emptyOr(`^(?:${GUID})?$`) }),
  asset_identifier: orEmpty(AssetIdentifier).meta({ ...ASSET, override: emptyOr(`^$|${textPattern(1)}`) }),
}
