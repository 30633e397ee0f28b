import { toNumber } from '../ffmpeg/rational.ts'
import type { Rendition } from './ladder.ts'

export interface PassPlan {
  renditions: readonly Rendition[]
  withAudio: boolean
  /** Publish a first master playlist as soon as the first segment of this pass is published. */
  publishesEarly: boolean
  /** Share of the encoding work; the weights of all passes add up to 1. */
  weight: number
}

/** For shorter clips a separate first pass does not pay: the whole clip is encoded soon enough. */
export const EARLY_FROM_SECONDS = 12

/** Cost of decoding and scaling one frame relative to encoding one of the same size (measured, x264 veryfast). */
const DECODE_COST = 0.35

/**
 * Plans the smallest rendition and the audio as a first pass, so that the video is playable after seconds instead of
 * minutes, and all other renditions as a second pass that decodes once. This costs one additional decoding. Pure.
 */
export function planPasses(
  ladder: readonly Rendition[],
  source: { width: number; height: number; seconds: number; hasAudio: boolean },
): PassPlan[] {
  const isLong = source.seconds >= EARLY_FROM_SECONDS
  const [first, ...rest] = ladder
  const groups = first && isLong && rest.length > 0 ? [[first], rest] : [ladder]
  const costs = groups.map((group) => costOf(group, source))
  const total = costs.reduce((a, b) => a + b, 0)
  return groups.map((renditions, i) => ({
    renditions,
    withAudio: i === 0 && source.hasAudio,
    publishesEarly: i === 0 && isLong && renditions.length === 1,
    weight: (costs[i] ?? 0) / total,
  }))
}

function costOf(renditions: readonly Rendition[], source: { width: number; height: number }): number {
  const fastest = Math.max(...renditions.map((r) => toNumber(r.frameRate)))
  const encode = renditions.reduce((sum, r) => sum + r.width * r.height * toNumber(r.frameRate), 0)
  return encode + DECODE_COST * source.width * source.height * fastest
}
