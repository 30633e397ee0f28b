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
  /** The frames of the grid that begin segments, where these follow the keyframes of a copied stream; unset: as above. */
  starts?: readonly number[]
}

export const timelineOf = (renditions: readonly { frameRate: Rational }[], segmentSeconds: number): Timeline => ({
  segmentSeconds,
  grid: renditions.map((r) => r.frameRate).reduce((a, b) => (toNumber(b) < toNumber(a) ? b : a)),
})

/** Frames of this rate per frame of the grid: 1 or 2, because every rate is the grid's or twice that. */
export const framesPerGrid = (timeline: Timeline, rate: Rational) =>
  Math.round(toNumber(rate) / toNumber(timeline.grid))

/** The number of the frame that begins segment k. */
export function firstFrameOf(timeline: Timeline, rate: Rational, k: number): number {
  const { starts, segmentSeconds, grid } = timeline
  const onGrid = starts
    ? (starts[k] ?? Number.POSITIVE_INFINITY)
    : Math.ceil((k * segmentSeconds * grid.num) / grid.den)
  return framesPerGrid(timeline, rate) * onGrid
}

/**
 * The same for ffmpeg's `-force_key_frames`: an expression that counts frames, so that nothing is rounded, or times. The
 * encoder's frames are counted from the beginning of segment `from`.
 */
export function keyframeExpression(timeline: Timeline, rate: Rational, from = 0): string {
  const perGrid = framesPerGrid(timeline, rate)
  // A list forces the first frame at or after each time, which ffmpeg rounds to the encoder's clock: often to whole frames.
  const timeOf = (start: number) => Math.max(0, ((perGrid * start - 0.25) * rate.den) / rate.num).toFixed(6)
  if (timeline.starts) return timeline.starts.map(timeOf).join(',')
  const [n, k] = from === 0 ? ['n', 'n_forced'] : [`n+${firstFrameOf(timeline, rate, from)}`, `(n_forced+${from})`]
  return `expr:gte(${n},${perGrid}*ceil(${k}*${timeline.segmentSeconds * timeline.grid.num}/${timeline.grid.den}))`
}

/**
 * Seconds that a segment may last whose end waits for a keyframe of the source. Keyframes just less than 6 s apart make
 * segments of up to 12 s: the first one comes too early to end a segment of 6 s, the second one ends it. The rest is for
 * rates such as 29.97, whose frames are longer.
 */
export const longestSegment = (segmentSeconds: number): number => Math.max(12.5, segmentSeconds + 6.5)

/** The largest number of frames between two forced keyframes, or behind the last one. */
export function longestGop(timeline: Timeline, rate: Rational): number {
  const { starts, segmentSeconds, grid } = timeline
  const seconds = starts ? longestSegment(segmentSeconds) : segmentSeconds
  return framesPerGrid(timeline, rate) * Math.ceil((seconds * grid.num) / grid.den)
}

/** What a rendition must look like, in frames. */
export interface Layout {
  frames: number
  /** All keyframes. */
  keyframes: readonly number[]
  /** The first frame of each segment, which is a keyframe. */
  starts: readonly number[]
  /** How far any frame may lie beside its place, in frames; unset: an encoder places them exactly. */
  offset?: number
}

/**
 * The layout of a rendition with this many frames, which begins with segment `from`: each segment has one keyframe, at its
 * beginning.
 */
export function segmentLayout(timeline: Timeline, rate: Rational, frames: number, from = 0): Layout {
  const starts: number[] = []
  const startOf = (k: number) => firstFrameOf(timeline, rate, from + k) - firstFrameOf(timeline, rate, from)
  for (let k = 0; startOf(k) < frames; k++) starts.push(startOf(k))
  return { frames, keyframes: starts, starts }
}

/** The required length in seconds of each segment. */
export const segmentLengths = ({ starts, frames }: Layout, rate: Rational): number[] =>
  starts.map((start, k) => (((starts[k + 1] ?? frames) - start) * rate.den) / rate.num)
