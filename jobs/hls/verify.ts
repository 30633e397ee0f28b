import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { EXIT } from '../../lib/contract/job-result.ts'
import { type Rational, toNumber } from '../ffmpeg/rational.ts'
import { TransientError } from '../runtime/failure.ts'
import type { Rendition } from './ladder.ts'
import type { Segment } from './media-playlist.ts'
import { readPlaylist } from './publisher.ts'
import { readSegment } from './read-segment.ts'
import { type SegmentFacts, type StreamFacts, seamFault } from './segment-facts.ts'
import { firstFrameOf, type Layout, segmentLayout, segmentLengths, type Timeline } from './timeline.ts'
import { SegmentFault } from './ts-packets.ts'

export interface VerifiedStream {
  segments: (Segment & { bytes: number })[]
}

export interface VerifiedVideo extends VerifiedStream {
  frames: number
  /** The time stamp of its first frame, in seconds. */
  first: number
  codec: string
}

/** The encoder's output is wrong. The attempt does not commit it; another attempt may succeed. */
export const wrong = (name: string, what: string, cause?: unknown) =>
  new TransientError(EXIT.verificationFailed, 'VerificationFailed', `${name}: ${what}`, { cause })

/** Seconds; covers the rounding of 90 kHz time stamps and of six decimals. */
const TOLERANCE = 0.002

/** Reads the segments of a folder, each once: what is read before it leaves need not be read again in the end. */
export interface SegmentReader {
  read(uri: string): Promise<SegmentFacts>
  readAll: ReadStream
}

/** What a whole stream holds; throws where its segments do not fit each other. */
export type ReadStream = (segments: readonly Pick<Segment, 'uri'>[]) => Promise<StreamFacts>

/** For H.264 in transport streams, of segments that one muxer has written. */
export function openSegmentReader(folder: string, signal: AbortSignal): SegmentReader {
  const known = new Map<string, Promise<SegmentFacts>>()
  const readNew = (uri: string) =>
    readSegment(join(folder, uri), signal).catch((error: unknown) => {
      if (error instanceof SegmentFault) throw wrong(uri, error.message, error)
      // What a disk or a signal refuses says nothing about the segment.
      known.delete(uri)
      throw error
    })
  const read = (uri: string) => {
    const facts = known.get(uri) ?? readNew(uri)
    known.set(uri, facts)
    return facts
  }
  return {
    read,
    async readAll(segments) {
      const whole: StreamFacts = { codec: '', frames: 0, first: Number.POSITIVE_INFINITY, last: 0, keyframes: [] }
      let before: SegmentFacts | undefined
      for (const { uri } of segments) {
        signal.throwIfAborted()
        const facts = await read(uri)
        const fault = before && seamFault(before, facts)
        if (fault !== undefined) throw wrong(uri, fault)
        before = facts
        whole.codec = facts.codec
        whole.frames += facts.frames
        whole.first = Math.min(whole.first, facts.first)
        whole.last = Math.max(whole.last, facts.last)
        whole.keyframes.push(...facts.keyframes)
      }
      return whole
    },
  }
}

/**
 * Reads the containers of a rendition and checks that the time stamps are those of as many frames as are due, that every
 * listed segment exists, can be started with and has the length that the layout requires, and that the keyframes are exactly
 * those of the layout. What lies between two segments is checked as far as `readAll` does. Nothing is decoded: pictures
 * whose bytes are wrong, and the lengths of the last frames, are not seen. `layoutOf` is given the number of frames found.
 */
export async function verifyVideo(
  folder: string,
  { name, frameRate }: Rendition,
  layoutOf: (frames: number) => Layout,
  readAll: ReadStream,
): Promise<VerifiedVideo> {
  const { segments } = await verifyFiles(folder, name)
  const stream = await readAll(segments)
  const layout = layoutOf(stream.frames)
  verifyKeyframes(name, stream, layout, toNumber(frameRate))
  verifyLengths(name, segments, layout, frameRate)
  return { segments, frames: stream.frames, first: stream.first, codec: stream.codec }
}

/** The same of the first segments of a rendition whose encoder was stopped behind them. */
export async function verifyBeginning(
  { name, frameRate }: Rendition,
  segments: VerifiedStream['segments'],
  timeline: Timeline,
  readAll: ReadStream,
): Promise<VerifiedVideo> {
  const stream = await readAll(segments)
  const layout = segmentLayout(timeline, frameRate, firstFrameOf(timeline, frameRate, segments.length))
  verifyKeyframes(name, stream, layout, toNumber(frameRate))
  verifyLengths(name, segments, layout, frameRate)
  return { segments, frames: stream.frames, first: stream.first, codec: stream.codec }
}

function verifyKeyframes(
  name: string,
  packets: StreamFacts,
  { frames, keyframes, offset = 0 }: Layout,
  fps: number,
): void {
  const spanned = Math.round((packets.last - packets.first) * fps) + 1
  if (packets.frames !== frames || spanned !== frames) {
    throw wrong(name, `${packets.frames} frames over ${spanned} where ${frames} were due`)
  }
  if (packets.keyframes.length !== keyframes.length) {
    throw wrong(name, `${packets.keyframes.length} keyframes where ${keyframes.length} were due`)
  }
  for (const [k, due] of keyframes.entries()) {
    const at = ((packets.keyframes[k] ?? Number.NaN) - packets.first) * fps
    if (!(Math.abs(at - due) < 0.1 + 2 * offset)) throw wrong(name, `keyframe ${k} is frame ${at}, not ${due}`)
  }
}

function verifyLengths(name: string, segments: readonly Segment[], layout: Layout, rate: Rational): void {
  const lengths = segmentLengths(layout, rate)
  const { length } = lengths
  if (segments.length !== length) throw wrong(name, `${segments.length} segments where ${length} were due`)
  for (const [k, segment] of segments.entries()) {
    // The length of a source's last frame is often wrong, and a copy keeps it. The packets have shown the span.
    if (layout.offset !== undefined && k === length - 1) continue
    const frame = rate.den / rate.num
    const tolerance = k === length - 1 ? frame : TOLERANCE + 2 * (layout.offset ?? 0) * frame
    if (!(Math.abs(segment.seconds - (lengths[k] ?? Number.NaN)) <= tolerance)) {
      throw wrong(segment.uri, `lasts ${segment.seconds} s, not ${lengths[k]} s`)
    }
  }
}

/** Audio is cut at its own frame boundaries, so only its total length is checked. */
export async function verifyAudio(folder: string, name: string, seconds: number): Promise<VerifiedStream> {
  const verified = await verifyFiles(folder, name)
  const total = verified.segments.reduce((sum, s) => sum + s.seconds, 0)
  if (Math.abs(total - seconds) > 0.25) throw wrong(name, `lasts ${total.toFixed(3)} s, not ${seconds.toFixed(3)} s`)
  return verified
}

/** All renditions must span the same frames, from the same moment; those at half the rate have every second one. */
export function verifySameSpan(videos: readonly { rendition: Rendition; frames: number; first: number }[]): void {
  const begin = Math.min(...videos.map((v) => v.first))
  const late = videos.find(({ rendition, first }) => (first - begin) * toNumber(rendition.frameRate) > 0.5)
  if (late) throw wrong(late.rendition.name, `begins ${late.first - begin} s after another rendition`)
  const full = videos.map(({ rendition, frames }) => ({ name: rendition.name, frames: frames * rendition.step }))
  const least = Math.min(...full.map((v) => v.frames))
  const odd = full.find((v) => v.frames - least > 1)
  if (odd) throw wrong(odd.name, `${odd.frames} frames where another rendition has ${least}`)
}

async function verifyFiles(folder: string, name: string): Promise<VerifiedStream> {
  const playlist = await readPlaylist(join(folder, `${name}.m3u8`))
  if (!playlist?.ended || playlist.segments.length === 0) throw wrong(name, 'its playlist is not complete')
  const segments = []
  for (const segment of playlist.segments) {
    const size = await stat(join(folder, segment.uri)).then(
      (s) => s.size,
      () => 0,
    )
    if (size === 0) throw wrong(segment.uri, 'is listed but missing or empty')
    segments.push({ ...segment, bytes: size })
  }
  return { segments }
}
