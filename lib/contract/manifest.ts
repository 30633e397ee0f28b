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

/**
 * `manifest.json`, written last below an output prefix. Its existence is the commit: every object it names has been
 * uploaded and verified. File names are relative to the prefix. Durations are seconds, sizes bytes.
 */
export const Manifest = z.object({
  version: z.literal(1),
  id: z.string().max(64),
  type: z.enum(['video']),
  createdAt: z.iso.datetime(),
  accelerator: z.enum(['gpu', 'cpu']),
  acceleratorReason: z.string().max(256).optional(),
  source: z.object({
    container: z.string().max(64),
    videoCodec: z.string().max(64),
    audioCodec: z.string().max(64).nullable(),
    width: z.int().positive(),
    height: z.int().positive(),
    rotation: z.int(),
    durationSec: z.number().nonnegative(),
    frameRate: z.number().positive(),
    hdr: z.boolean(),
    variableFrameRate: z.boolean(),
    capturedAt: z.iso.datetime({ offset: true }).nullable(),
    camera: z.object({ make: z.string().max(128).nullable(), model: z.string().max(128).nullable() }),
    location: z.object({ latitude: z.number(), longitude: z.number() }).nullable(),
  }),
  hls: z.object({
    master: z.string().max(128),
    segmentSeconds: z.number().positive(),
    durationSec: z.number().positive(),
    renditions: z.array(ManifestRendition).min(1).max(8),
  }),
  encode: z.object({ wallSeconds: z.number().nonnegative(), speed: z.number().nonnegative() }),
})
export type Manifest = z.infer<typeof Manifest>
