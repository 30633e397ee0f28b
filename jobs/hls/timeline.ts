import { type Rational, toNumber } from '../ffmpeg/rational.ts'

/**
 * Where segments begin: at the same instants in all renditions. Segment k begins with the first frame at or after
 * k × segmentSeconds that every rendition has, that is, on the grid of the lowest frame rate. At an integer rate that
 * is exactly k × segmentSeconds; at 30000/1001 it is up to one frame later (6.006 s), and never drifts.
 */
export interface Timeline {
  segmentSeconds: number
  /** The lowest rate among the renditions. */
  grid: Rational
}

export const timelineOf = (renditions: readonly { frameRate: Rational }[], segmentSeconds: number): Timeline => ({
  segmentSeconds,
  grid: renditions.map((r) => r.frameRate).reduce((a, b) => (toNumber(b) < toNumber(a) ? b : a)),
})

/** Frames of this rate per frame of the grid: 1 or 2, because every rate is the grid's or twice that. */
const framesPerGrid = (timeline: Timeline, rate: Rational) => Math.round(toNumber(rate) / toNumber(timeline.grid))

/** The number of the frame that begins segment k. */
export const firstFrameOf = (timeline: Timeline, rate: Rational, k: number): number =>
  framesPerGrid(timeline, rate) * Math.ceil((k * timeline.segmentSeconds * timeline.grid.num) / timeline.grid.den)

/** The same as an expression for ffmpeg's `-force_key_frames`. It counts frames, so nothing is rounded. */
export function keyframeExpression(timeline: Timeline, rate: Rational): string {
  const perGrid = framesPerGrid(timeline, rate)
  return `expr:gte(n,${perGrid}*ceil(n_forced*${timeline.segmentSeconds * timeline.grid.num}/${timeline.grid.den}))`
}

/** The largest number of frames between two forced keyframes. */
export const longestGop = (timeline: Timeline, rate: Rational): number =>
  framesPerGrid(timeline, rate) * Math.ceil((timeline.segmentSeconds * timeline.grid.num) / timeline.grid.den)

/** What a rendition must look like, in frames. */
export interface Layout {
  frames: number
  /** All keyframes. */
  keyframes: readonly number[]
  /** The first frame of each segment, which is a keyframe. */
  starts: readonly number[]
}

/** The layout of a rendition with this many frames: each segment has one keyframe, at its beginning. */
export function segmentLayout(timeline: Timeline, rate: Rational, frames: number): Layout {
  const starts: number[] = []
  for (let k = 0; firstFrameOf(timeline, rate, k) < frames; k++) starts.push(firstFrameOf(timeline, rate, k))
  return { frames, keyframes: starts, starts }
}

/** The required length in seconds of each segment. */
export const segmentLengths = ({ starts, frames }: Layout, rate: Rational): number[] =>
  starts.map((start, k) => (((starts[k + 1] ?? frames) - start) * rate.den) / rate.num)
