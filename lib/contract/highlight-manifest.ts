import * as z from 'zod'
import { ManifestRendition, StillImages } from './manifest.ts'

/** An item that is in the highlight: from second `startSec` for `seconds`, overlaps included. */
const ShownItem = z.object({
  id: z.string().max(64),
  startSec: z.number().nonnegative(),
  seconds: z.number().positive(),
})

/** An item that could not be decoded and was left out, because the spec permitted it. */
const SkippedItem = z.object({ id: z.string().max(64), reason: z.string().max(64), message: z.string().max(512) })

/** `manifest.json` of a highlight, written last below its output prefix; its existence is the commit, as for media. */
export const HighlightManifest = z.object({
  version: z.literal(1),
  id: z.string().max(64),
  createdAt: z.iso.datetime(),
  type: z.literal('highlight'),
  accelerator: z.enum(['gpu', 'cpu']),
  acceleratorReason: z.string().max(256).optional(),
  hls: z.object({
    master: z.string().max(128),
    segmentSeconds: z.number().positive(),
    durationSec: z.number().positive(),
    renditions: z.array(ManifestRendition).min(1).max(8),
  }),
  images: StillImages.optional(),
  items: z.array(ShownItem).min(1).max(30),
  skipped: z.array(SkippedItem).max(30),
  encode: z.object({
    wallSeconds: z.number().nonnegative(),
    speed: z.number().nonnegative(),
    reused: z.int().nonnegative(),
  }),
})
export type HighlightManifest = z.infer<typeof HighlightManifest>
