import { toNumber } from '../ffmpeg/rational.ts'
import type { CopiedTop } from './copied-top.ts'
import type { Rendition } from './ladder.ts'

export interface PassPlan {
  renditions: readonly Rendition[]
  withAudio: boolean
  /** Publish a first master playlist as soon as the first segment of this pass is published. */
  publishesEarly: boolean
  /** Share of the encoding work; the weights of all passes add up to 1. */
  weight: number
  /** Set when the only rendition of the pass is the source's own stream. */
  copied?: CopiedTop
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

/** Cost of copying a stream relative to encoding it. */
const COPY_COST = 0.02

/**
 * Plans the copied top and the audio as a first pass, after which the video can be played, and all smaller renditions as a
 * second one. Pure.
 */
export function planCopiedPasses(
  copied: CopiedTop,
  ladder: readonly Rendition[],
  source: { width: number; height: number; hasAudio: boolean },
): PassPlan[] {
  const rest = ladder.slice(0, -1)
  const [copy, encode] = [COPY_COST * costOf([copied.rendition], source), costOf(rest, source)]
  const [first, second] = [copy / (copy + encode), encode / (copy + encode)]
  return [
    { renditions: [copied.rendition], withAudio: source.hasAudio, publishesEarly: true, weight: first, copied },
    { renditions: rest, withAudio: false, publishesEarly: false, weight: second },
  ]
}

/**
 * How the renditions are made, and why, in a sentence. `notCopied`: why the stream of the upload is not one of them;
 * `chunks`: into how many the last pass is cut for several pods. Pure.
 */
export function planReasonOf(
  plans: readonly PassPlan[],
  { notCopied, chunks }: { notCopied?: string | undefined; chunks?: number },
): string {
  const [first = '', second] = plans.map(({ renditions }) => renditions.map((r) => r.name).join(', '))
  if (plans[0]?.copied) return `${first} is the stream of the upload; ${second} in one pass after it`
  const passes =
    second === undefined
      ? `${first} in one pass`
      : `${first} in a pass of its own, so that it plays early; ${second} in ${chunks === undefined ? 'one pass after it' : `${chunks} chunks, which several pods share`}`
  return `${passes}; the stream of the upload is not copied: ${notCopied}`.slice(0, 256)
}

function costOf(renditions: readonly Rendition[], source: { width: number; height: number }): number {
  const fastest = Math.max(...renditions.map((r) => toNumber(r.frameRate)))
  const encode = renditions.reduce((sum, r) => sum + r.width * r.height * toNumber(r.frameRate), 0)
  return encode + DECODE_COST * source.width * source.height * fastest
}
