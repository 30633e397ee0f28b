import * as z from 'zod'

export const ManifestRendition = z.object({
  name: z.string().max(32),
  width: z.int().positive(),
  height: z.int().positive(),
  /** Peak and average bits per second, audio included, as in EXT-X-STREAM-INF (RFC 8216 §4.3.4.2). */
  bandwidth: z.int().positive(),
  averageBandwidth: z.int().positive(),
  codecs: z.string().max(128),
  frameRate: z.number().positive(),
  playlist: z.string().max(128),
  segments: z.int().positive(),
  bytes: z.int().positive(),
})
export type ManifestRendition = z.infer<typeof ManifestRendition>

/** No manifest has more bytes; readers refuse larger ones. */
export const MAX_MANIFEST_BYTES = 256 * 1024

/** Names of the image derivatives below an output prefix. */
export const IMAGE_FILES = { jpeg: 'image.jpg', webp: 'image.webp', thumb: 'thumb.webp' } as const

/** A derivative of an image, or of a frame of a video: upright, sRGB, without metadata. */
export const ManifestImage = z.object({
  file: z.string().max(128),
  width: z.int().positive(),
  height: z.int().positive(),
  bytes: z.int().positive(),
})
export type ManifestImage = z.infer<typeof ManifestImage>

/** Long side of the WebP for viewing and of the one for grids, in pixels; smaller originals keep their size. */
export const WEBP_LONG_SIDE = 2048
export const THUMB_LONG_SIDE = 512

export const StillImages = z.object({
  webp: ManifestImage,
  thumb: ManifestImage,
  /** Base64 of a thumbhash (https://evanw.github.io/thumbhash/): a picture of about 25 bytes, drawn at once. */
  placeholder: z.base64().max(64),
})

const Camera = z.object({ make: z.string().max(128).nullable(), model: z.string().max(128).nullable() })
const Location = z.object({ latitude: z.number().min(-90).max(90), longitude: z.number().min(-180).max(180) })

/** What the file says about the place and time it was taken. */
const taken = {
  capturedAt: z.iso.datetime({ offset: true }).nullable(),
  camera: Camera,
  location: Location.nullable(),
}

const common = {
  version: z.literal(1),
  id: z.string().max(64),
  createdAt: z.iso.datetime(),
}

export const VideoManifest = z.object({
  ...common,
  type: z.literal('video'),
  accelerator: z.enum(['gpu', 'cpu']),
  acceleratorReason: z.string().max(256).optional(),
  /** How the renditions were made, and why. */
  planReason: z.string().max(256).optional(),
  source: z.object({
    container: z.string().max(64),
    videoCodec: z.string().max(64),
    audioCodec: z.string().max(64).nullable(),
    width: z.int().positive(),
    height: z.int().positive(),
    /** Degrees counterclockwise by which players turn the pictures, as ffprobe says: 270 of a phone held upright. */
    rotation: z.int(),
    /** Of the pictures. */
    durationSec: z.number().nonnegative(),
    frameRate: z.number().positive(),
    hdr: z.boolean(),
    variableFrameRate: z.boolean(),
    ...taken,
  }),
  hls: z.object({
    master: z.string().max(128),
    segmentSeconds: z.number().positive(),
    /** Of what plays: the last picture stays while the sound goes on. */
    durationSec: z.number().positive(),
    renditions: z.array(ManifestRendition).min(1).max(8),
  }),
  /** Of a frame; manifests of earlier versions have none. */
  images: StillImages.optional(),
  encode: z.object({ wallSeconds: z.number().nonnegative(), speed: z.number().nonnegative() }),
})
export type VideoManifest = z.infer<typeof VideoManifest>

export const ImageManifest = z.object({
  ...common,
  type: z.literal('image'),
  source: z.object({
    /** `jpeg`, `png`, `webp`, `gif`, `avif` or `heif`. */
    format: z.string().max(64),
    /** As displayed, upright. */
    width: z.int().positive(),
    height: z.int().positive(),
    /** As in EXIF; 1 is upright. */
    orientation: z.int().min(1).max(8),
    isAnimated: z.boolean(),
    ...taken,
    /** Allow-listed tags as text, e.g. `ExposureTime` → `1/120`. Never a location, a serial number or a name. */
    exif: z.record(z.string().max(64), z.string().max(128)),
  }),
  images: StillImages.extend({
    /** Null where the untouched original is what clients may show as `image_url`. */
    jpeg: ManifestImage.nullable(),
  }),
  encode: z.object({ wallSeconds: z.number().nonnegative() }),
})
export type ImageManifest = z.infer<typeof ImageManifest>

/**
 * `manifest.json`, written last below an output prefix. Its existence is the commit: every object it names has been
 * uploaded and verified. File names are relative to the prefix. Durations are seconds, sizes bytes.
 */
export const Manifest = z.discriminatedUnion('type', [VideoManifest, ImageManifest])
export type Manifest = z.infer<typeof Manifest>
