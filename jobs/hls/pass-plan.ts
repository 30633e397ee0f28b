import { toNumber } from '../ffmpeg/rational.ts'
import type { SharedCosts } from './chunks/layout.ts'
import type { CopiedTop } from './copied-top.ts'
import type { Rendition } from './ladder.ts'
import type { PassCosts } from './run-ahead.ts'

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

/**
 * The unit of costs is that of encoding a pixel (x264 veryfast). Decoding one was measured at 0.25 of it (a quick camera's
 * stream) to 0.36 (noisy footage): with the least, both the speed and the saving of one pass for all are underestimated.
 */
const DECODE_COST = 0.25
/** Of a pixel of the source, for each rendition that is smaller. */
const SCALE_COST = 0.06
/** Of a second of sound. */
const AUDIO_COST = 2_300_000

interface CostlySource {
  width: number
  height: number
  hasAudio: boolean
}

/**
 * Plans the smallest rendition and the audio as a first pass, so that the video is playable after seconds instead of
 * minutes, and all other renditions as a second pass that decodes once. This costs one additional decoding. Pure.
 */
export function planPasses(ladder: readonly Rendition[], source: CostlySource & { seconds: number }): PassPlan[] {
  const isLong = source.seconds >= EARLY_FROM_SECONDS
  const [first, ...rest] = ladder
  const groups = first && isLong && rest.length > 0 ? [[first], rest] : [ladder]
  const costs = groups.map((group, i) => costOf(group, source, i === 0))
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
export function planCopiedPasses(copied: CopiedTop, ladder: readonly Rendition[], source: CostlySource): PassPlan[] {
  const rest = ladder.slice(0, -1)
  const [copy, encode] = [COPY_COST * costOf([copied.rendition], source, true), costOf(rest, source, false)]
  const [first, second] = [copy / (copy + encode), encode / (copy + encode)]
  return [
    { renditions: [copied.rendition], withAudio: source.hasAudio, publishesEarly: true, weight: first, copied },
    { renditions: rest, withAudio: false, publishesEarly: false, weight: second },
  ]
}

/** What the two passes of `planPasses` cost, and what one would that makes all renditions. Pure. */
export function passCosts(ladder: readonly Rendition[], source: CostlySource): PassCosts {
  return {
    ahead: costOf(ladder.slice(0, 1), source, true),
    others: costOf(ladder.slice(1), source, false),
    all: costOf(ladder, source, true),
  }
}

/** The same for a video that several pods share: the sound has a process of its own there. Pure. */
export function sharedCosts(ladder: readonly Rendition[], source: CostlySource): SharedCosts {
  const { ahead, others, all } = passCosts(ladder, { ...source, hasAudio: false })
  return { ahead, others, all, sound: passCosts(ladder, source).ahead - ahead }
}

/** All renditions and the sound in one pass, which takes over from a first pass that ran ahead or was stopped. Pure. */
export const planTakeover = (
  ladder: readonly Rendition[],
  source: { hasAudio: boolean },
  weight: number,
): PassPlan => ({ renditions: ladder, withAudio: source.hasAudio, publishesEarly: false, weight })

/** What a first pass has shown, and what came of it. */
export interface Shown {
  /** Seconds of the clip that one process for all renditions makes in a second, carefully estimated; undefined: not known. */
  speedOfAll?: number | undefined
  /** How far it ran ahead, in seconds, where another process took over. */
  ranAhead?: number | undefined
  /** Into how many the last pass is cut for several pods. */
  chunks?: number
  /** Where the first pass ended before the end of the video and chunks hold all renditions: its seconds. */
  sharedFrom?: number | undefined
}

/** How the renditions are made, and why, in a sentence. `notCopied`: why the stream of the upload is not one of them. Pure. */
export function planReasonOf(plans: readonly PassPlan[], notCopied?: string, shown: Shown = {}): string {
  const [first = '', second] = plans.map(({ renditions }) => renditions.map((r) => r.name).join(', '))
  if (plans[0]?.copied) return `${first} is the stream of the upload; ${second} in one pass after it`
  const passes = second === undefined ? `${first} in one pass` : passesOf(first, second, shown)
  return `${passes}; the stream of the upload is not copied: ${notCopied}`.slice(0, 256)
}

function passesOf(first: string, second: string, { speedOfAll, ranAhead, chunks, sharedFrom }: Shown): string {
  if (chunks !== undefined && sharedFrom !== undefined)
    return `${first} in a pass of its own for ${Math.round(sharedFrom)} s, so that it plays early; ${second}, and the rest of ${first}, in ${chunks} chunks, which several pods share`
  if (chunks !== undefined)
    return `${first} in a pass of its own, so that it plays early; ${second} in ${chunks} chunks, which several pods share`
  const speed = speedOfAll === undefined ? undefined : `an estimated ${speedOfAll.toPrecision(2)} times playing speed`
  if (ranAhead !== undefined) {
    const after = `${first} ran ahead for ${Math.round(ranAhead)} s, so that it plays early; all renditions in one pass after it`
    return speed === undefined ? after : `${after}, at ${speed}`
  }
  const why = speed === undefined ? '' : ` (one pass for all would run at ${speed})`
  return `${first} in a pass of its own, so that it plays early${why}; ${second} in one pass after it`
}

/** Of a second of the clip. */
function costOf(
  renditions: readonly Rendition[],
  { width, height, hasAudio }: CostlySource,
  withAudio: boolean,
): number {
  const rates = renditions.map((r) => toNumber(r.frameRate))
  const encode = renditions.reduce((sum, r, i) => sum + r.width * r.height * (rates[i] ?? 0), 0)
  const scaled = renditions.reduce((sum, r, i) => sum + (r.width === width ? 0 : (rates[i] ?? 0)), 0)
  const pixels = width * height
  const sound = withAudio && hasAudio ? AUDIO_COST : 0
  return encode + pixels * (SCALE_COST * scaled + DECODE_COST * Math.max(...rates)) + sound
}
