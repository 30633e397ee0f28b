import { type Rational, toNumber } from './rational.ts'

/**
 * Where segments begin: the same instants in all renditions. Segment k begins with the first frame at or after
 * k × segmentSeconds that every rendition has, that is, on the grid of the lowest frame rate. At a whole rate that is
 * exactly k × segmentSeconds; at 30000/1001 it is up to one frame later (6.006 s), without ever drifting.
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

/** How many frames of this rate make one of the grid: rates are either the grid's or twice it. */
const framesPerGrid = (timeline: Timeline, rate: Rational) => Math.round(toNumber(rate) / toNumber(timeline.grid))

/** The number of the frame that begins segment k. */
export const firstFrameOf = (timeline: Timeline, rate: Rational, k: number): number =>
  framesPerGrid(timeline, rate) * Math.ceil((k * timeline.segmentSeconds * timeline.grid.num) / timeline.grid.den)

/** ffmpeg's expression for `-force_key_frames` that says the same: counted in frames, so that nothing is rounded. */
export function keyframeExpression(timeline: Timeline, rate: Rational): string {
  const perGrid = framesPerGrid(timeline, rate)
  return `expr:gte(n,${perGrid}*ceil(n_forced*${timeline.segmentSeconds * timeline.grid.num}/${timeline.grid.den}))`
}

/** The frames from one forced keyframe to the next, at most. */
export const longestGop = (timeline: Timeline, rate: Rational): number =>
  framesPerGrid(timeline, rate) * Math.ceil((timeline.segmentSeconds * timeline.grid.num) / timeline.grid.den)

/** How long each segment of a rendition with this many frames must be, in seconds. */
export function segmentLengths(timeline: Timeline, rate: Rational, frames: number): number[] {
  const lengths: number[] = []
  for (let k = 0; firstFrameOf(timeline, rate, k) < frames; k++) {
    const end = Math.min(frames, firstFrameOf(timeline, rate, k + 1))
    lengths.push(((end - firstFrameOf(timeline, rate, k)) * rate.den) / rate.num)
  }
  return lengths
}
