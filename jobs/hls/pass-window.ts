import type { ProbedSource } from '../ffmpeg/probe.ts'
import { toNumber } from '../ffmpeg/rational.ts'
import { firstFrameOf, type Timeline } from './timeline.ts'

/** The segments that a pass makes, where it makes a part of the video only. */
export interface PassPart {
  /** The number of its first segment in the whole video. */
  firstSegment: number
  /** Undefined: to the end of the video. */
  segments: number | undefined
  /** Part of the names of its segments, `[a-z0-9]+`: two processes that make the same part never write the same file. */
  tag: string
}

/** The frames of such a pass, counted at the source's constant rate. */
export interface PassWindow {
  /** Seconds of the source at which decoding begins. */
  seekSeconds: number
  /** Frames that are decoded before the first one that is encoded. */
  preroll: number
  /** The first frame that is encoded, in the whole video. */
  first: number
  /** Undefined: all to the end. */
  frames: number | undefined
  /** Seconds of the source at which the first frame is shown. */
  startSeconds: number
  /** Seconds that the demuxer reads; undefined: to the end. */
  readSeconds: number | undefined
}

/** What was shown before the window begins may still be shown when it does: a recorder that drops frames leaves gaps. */
const PREROLL_SECONDS = 2
/** Frames are stored in another order than they are shown in. */
const READ_AHEAD_SECONDS = 2.5

/** The frame-exact window of a part. Pure. */
export function windowOf(
  { frameRate }: Pick<ProbedSource, 'frameRate'>,
  timeline: Timeline,
  part: PassPart,
): PassWindow {
  const { num, den } = frameRate
  const first = firstFrameOf(timeline, frameRate, part.firstSegment)
  // Even, so that renditions of half the rate keep the same frames as without a window.
  const preroll = Math.min(first, 2 * Math.round((PREROLL_SECONDS * toNumber(frameRate)) / 2))
  const frames =
    part.segments === undefined
      ? undefined
      : firstFrameOf(timeline, frameRate, part.firstSegment + part.segments) - first
  return {
    seekSeconds: ((first - preroll) * den) / num,
    preroll,
    first,
    frames,
    startSeconds: (first * den) / num,
    readSeconds: frames === undefined ? undefined : ((preroll + frames) * den) / num + READ_AHEAD_SECONDS,
  }
}
