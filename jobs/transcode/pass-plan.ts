import type { Rendition } from './ladder.ts'
import { toNumber } from './rational.ts'

export interface PassPlan {
  renditions: readonly Rendition[]
  withAudio: boolean
  /** Publish a first master playlist as soon as the first segment of this pass is there. */
  publishesEarly: boolean
  /** Share of the encoding work, all together 1. */
  weight: number
}

/** A shorter clip is encoded before a second run would have begun to pay. */
export const EARLY_FROM_SECONDS = 12

/** Decoding and scaling one frame, compared with encoding one of the same size: measured, x264 veryfast. */
const DECODE_COST = 0.35

/**
 * The smallest rendition and the sound first, in a run of their own, so that people can watch after seconds instead of
 * minutes; then everything else in one run that decodes once. The price is one more decoding. Pure.
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
