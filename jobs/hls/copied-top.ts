import type { ProbedSource } from '../ffmpeg/probe.ts'
import { toNumber } from '../ffmpeg/rational.ts'
import { presentationSeconds } from '../ffmpeg/source.ts'
import type { Rendition } from './ladder.ts'
import { framesPerGrid, type Layout, longestSegment, type Timeline } from './timeline.ts'

/**
 * Whether the video stream of an upload can be served as its own top rendition. All decisions about it are pure and end in a
 * sentence that the resource's status shows. What only a look at every packet can tell is decided by `openCopyScan`.
 */

/** Every player that plays H.264 at all plays these. Baseline itself allows slice orders that few decoders know. */
const PROFILES = ['Constrained Baseline', 'Main', 'High']
const MAX_LEVEL = 42
/** Of the bit rate that the encoder would be allowed, on average and in any one segment. */
const MAX_AVERAGE = 1.5
const MAX_PEAK = 2.5
/** Nothing can be played before the whole copy is in the store, and the pod's disk holds it beside the upload. */
const MAX_BYTES = 2 ** 30
/** Each is a time in the arguments of an encoder, which the system limits to 128 KiB. */
const MAX_SEGMENTS = 8000
/** One tick of MPEG-TS, 1/90000 s, and the rounding of ffprobe's times. */
const CLOCK_SECONDS = 0.000013
/** How far a frame may lie beside its place at the constant rate, in frames: containers round their time stamps. */
const MAX_OFFSET = 0.1

/** Why the stream cannot be copied, as the container says; undefined: its packets decide. */
export function copyFault(source: ProbedSource, ladder: readonly Rendition[]): string | undefined {
  const top = ladder.at(-1)
  // The other renditions decode the source, which proves that it is whole.
  if (!top || ladder.length < 2) return 'it has no smaller rendition'
  if (top.width !== source.width || top.height !== source.height) return 'it is larger than the largest rendition'
  return formatFault(source) ?? timingFault(source, top)
}

function formatFault({ video, stream, hdr, rotation }: ProbedSource): string | undefined {
  const { profile, level, hasSquarePixels } = stream
  const faults: [boolean, string][] = [
    [video.codec !== 'h264', `it is ${video.codec}`],
    [!PROFILES.includes(profile ?? ''), `its profile is ${profile ?? 'unknown'}`],
    [level === null || level > MAX_LEVEL, 'its level is above 4.2'],
    [video.pixelFormat !== 'yuv420p', `its pixels are ${video.pixelFormat}`],
    [hdr !== null || (video.colorSpace?.startsWith('bt2020') ?? false), 'its colors are not those of SDR'],
    [video.interlaced, 'it is interlaced'],
    [rotation !== 0, 'it is rotated'],
    [stream.isMirrored, 'it is mirrored'],
    [!hasSquarePixels, 'its pixels are not square'],
  ]
  return faults.find(([is]) => is)?.[1]
}

export function timingFault(source: ProbedSource, top: Rendition): string | undefined {
  const rate = toNumber(top.frameRate)
  if (source.variableFrameRate || top.step !== 1) return 'its frame rate is not constant'
  if (Math.abs(source.averageFrameRate / rate - 1) > 0.02) return 'its frame rate is not that of the rendition'
  if (source.stream.startSeconds * rate > MAX_OFFSET) return 'it begins later than its sound'
  if (presentationSeconds(source) > source.videoSeconds) return 'its sound is longer'
  return undefined
}

export interface SourcePacket {
  /** Seconds from the start of the presentation. */
  pts: number
  bytes: number
  isKey: boolean
  /** An edit list hides it. */
  isDiscarded: boolean
  /** From here on the stream has other parameter sets than at its beginning. */
  isOther: boolean
}

/** The top rendition as it is, and where the segments of all renditions begin. */
export interface CopiedTop {
  rendition: Rendition
  /** The starts of segments on the grid, see `Timeline`. */
  starts: readonly number[]
  /** All keyframes, in frames. */
  keyframes: readonly number[]
  frames: number
  /** Rounded up, of the longest segment. */
  targetSeconds: number
}

export interface ScanOptions {
  top: Rendition
  /** That of all renditions, without a copy. */
  timeline: Timeline
  /** As the container declares. */
  seconds: number
}

/** Looks at the packets of a stream in the order of the file. `end` says what can be copied, or why nothing can. */
export function openCopyScan({ top, timeline, seconds }: ScanOptions) {
  const rate = toNumber(top.frameRate)
  /** Bytes by frame: 0 where none was seen. The container's word bounds what a hostile file can make of it. */
  const sizes = new Uint32Array(Math.ceil(seconds * rate) + Math.ceil(rate))
  /** The time of each keyframe, by its frame. */
  const keys = new Map<number, number>()
  let frames = 0
  let lastKey = Number.NEGATIVE_INFINITY
  let fault: string | undefined

  function faultOf({ pts, bytes, isKey, isDiscarded, isOther }: SourcePacket): string | undefined {
    const frame = Math.round(pts * rate)
    if (isDiscarded) return 'an edit list hides some of its frames'
    // The segments would begin with those of the first part.
    if (isOther) return 'it is joined of different streams'
    if (!(Math.abs(pts * rate - frame) <= MAX_OFFSET)) return 'its frame rate is not constant'
    if (frame < 0 || frame >= sizes.length || sizes[frame] !== 0 || bytes <= 0)
      return 'its frames do not follow each other'
    // Such a frame needs the pictures before the keyframe, which a player that begins here does not have.
    if (!isKey && frame < lastKey) return 'some of its keyframes are not closed'
    return undefined
  }

  return {
    add(packet: SourcePacket): void {
      fault ??= faultOf(packet)
      if (fault !== undefined) return
      const frame = Math.round(packet.pts * rate)
      sizes[frame] = packet.bytes
      frames += 1
      if (!packet.isKey) return
      keys.set(frame, packet.pts)
      lastKey = frame
    },
    end(): CopiedTop | string {
      if (fault !== undefined) return fault
      if (frames === 0 || sizes.subarray(0, frames).includes(0)) return 'its frames do not follow each other'
      const inOrder = [...keys].sort(([a], [b]) => a - b)
      if (inOrder[0]?.[0] !== 0) return 'it does not begin with a keyframe'
      return cut({ top, timeline, keys: inOrder, frames, sizes })
    },
  }
}

interface Scanned {
  top: Rendition
  timeline: Timeline
  /** Frames and times. */
  keys: readonly (readonly [number, number])[]
  frames: number
  sizes: Uint32Array
}

function cut({ top, timeline, keys, frames, sizes }: Scanned): CopiedTop | string {
  const perGrid = framesPerGrid(timeline, top.frameRate)
  const keyframes = keys.map(([frame]) => frame)
  const starts = startsOf(keys, timeline.segmentSeconds)
  if (starts.length > MAX_SEGMENTS) return `it has ${starts.length} segments`
  if (starts.some((start) => start % perGrid !== 0)) return 'its keyframes are not frames of the smaller renditions'
  const segments = starts.map((from, k) => {
    const to = starts[k + 1] ?? frames
    const bytes = sizes.subarray(from, to).reduce((sum, size) => sum + size, 0)
    return { bytes, seconds: ((to - from) * top.frameRate.den) / top.frameRate.num }
  })
  const longest = Math.max(...segments.map((s) => s.seconds))
  if (longest > longestSegment(timeline.segmentSeconds))
    return `its segments would be up to ${longest.toFixed(1)} s long`
  const total = segments.reduce((sum, s) => sum + s.bytes, 0)
  if (total > MAX_BYTES) return `it has ${(total / 2 ** 30).toFixed(1)} GiB`
  const average = (total * 8 * top.frameRate.num) / (frames * top.frameRate.den)
  if (average > MAX_AVERAGE * top.maxrate) return `it has ${megabits(average)} Mbit/s`
  const peak = Math.max(...segments.filter((s) => s.seconds >= 1).map((s) => (s.bytes * 8) / s.seconds), average)
  if (peak > MAX_PEAK * top.maxrate) return `a part of it has ${megabits(peak)} Mbit/s`
  const maxrate = Math.ceil(peak)
  return {
    rendition: { ...top, maxrate, bufsize: 2 * maxrate },
    starts: starts.map((start) => start / perGrid),
    ...{ keyframes, frames },
    targetSeconds: Math.max(timeline.segmentSeconds, Math.ceil(longest)),
  }
}

/** Where ffmpeg cuts a stream that it does not encode: at the first keyframe at or after each multiple of the length, by its time. */
function startsOf(keys: Scanned['keys'], segmentSeconds: number): number[] {
  const starts: number[] = []
  for (const [frame, pts] of keys) {
    if (pts - (keys[0]?.[1] ?? 0) >= starts.length * segmentSeconds - CLOCK_SECONDS) starts.push(frame)
  }
  return starts
}

const megabits = (bits: number) => (bits / 1e6).toFixed(1)

/** What the copied rendition must look like: it keeps its keyframes inside of segments. */
export const copiedLayout = ({ frames, keyframes, starts, rendition }: CopiedTop, timeline: Timeline): Layout => ({
  frames,
  keyframes,
  starts: starts.map((start) => start * framesPerGrid(timeline, rendition.frameRate)),
  offset: MAX_OFFSET,
})
