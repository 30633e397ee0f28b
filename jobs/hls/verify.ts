import { open, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { EXIT } from '../../lib/contract/job-result.ts'
import { runFfprobe } from '../ffmpeg/ffmpeg.ts'
import { guardedInput, type InputKind } from '../ffmpeg/input.ts'
import { type Rational, toNumber } from '../ffmpeg/rational.ts'
import { TransientError } from '../runtime/failure.ts'
import type { Rendition } from './ladder.ts'
import type { Segment } from './media-playlist.ts'
import { readPlaylist } from './publisher.ts'
import { type Layout, segmentLengths } from './timeline.ts'
import { readOpening } from './transport-stream.ts'

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
export const wrong = (name: string, what: string) =>
  new TransientError(EXIT.verificationFailed, 'VerificationFailed', `${name}: ${what}`)

const PROBE_LIMIT_MS = 1_800_000
/** Seconds; covers the rounding of 90 kHz time stamps and of six decimals. */
const TOLERANCE = 0.002

export interface VerifiedFormat {
  input: InputKind
  /** The codec that all segments have; throws where one does not begin with a keyframe. */
  codecOf(folder: string, segments: readonly Segment[]): Promise<string>
}

const TRANSPORT_STREAM: VerifiedFormat = { input: 'own', codecOf: verifyOpenings }

/**
 * Reads the encoded rendition as a player would and checks that no frame is missing, that every listed segment exists,
 * begins with a keyframe and its parameter sets and has the length that the layout requires, and that the keyframes are
 * exactly those of the layout. `layoutOf` is given the number of frames found.
 */
export async function verifyVideo(
  folder: string,
  { name, frameRate }: Rendition,
  layoutOf: (frames: number) => Layout,
  signal: AbortSignal,
  format = TRANSPORT_STREAM,
): Promise<VerifiedVideo> {
  const { segments } = await verifyFiles(folder, name)
  const packets = await readPackets(join(folder, `${name}.m3u8`), format.input, signal)
  if (packets.frames === 0) throw wrong(name, 'it has no frames')
  const layout = layoutOf(packets.frames)
  verifyKeyframes(name, packets, layout, toNumber(frameRate))
  verifyLengths(name, segments, layout, frameRate)
  return { segments, frames: packets.frames, first: packets.first, codec: await format.codecOf(folder, segments) }
}

function verifyKeyframes(name: string, packets: Packets, { frames, keyframes, offset = 0 }: Layout, fps: number): void {
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

/** A player may start with any segment, so each must carry the same parameter sets. */
async function verifyOpenings(folder: string, segments: readonly Segment[]): Promise<string> {
  let codec: string | undefined
  for (const { uri } of segments) {
    const opening = await readStart(join(folder, uri))
    if (!opening?.randomAccess || !opening.codec) throw wrong(uri, 'does not begin with a keyframe')
    codec ??= opening.codec
    if (opening.codec !== codec) throw wrong(uri, `is ${opening.codec}, not ${codec}`)
  }
  return codec ?? ''
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

/** Parameter sets and the first slice are in the first packets, after those with the tables. */
export async function readStart(path: string) {
  const handle = await open(path)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(188 * 12), 0, 188 * 12, 0)
    return readOpening(buffer.subarray(0, bytesRead))
  } finally {
    await handle.close()
  }
}

type Packets = Awaited<ReturnType<typeof readPackets>>

async function readPackets(playlist: string, input: InputKind, signal: AbortSignal) {
  const seen = { frames: 0, first: Number.POSITIVE_INFINITY, last: 0, keyframes: [] as number[] }
  const { code, complaints } = await runFfprobe({
    args: [
      ...['-select_streams', 'v:0', '-show_entries', 'packet=pts_time,flags', '-of', 'csv=p=0'],
      ...guardedInput(input, playlist),
    ],
    signal,
    limitMs: PROBE_LIMIT_MS,
    onLine: (line) => {
      const [time, flags = ''] = line.split(',')
      if (!time || !Number.isFinite(Number(time))) return
      const pts = Number(time)
      seen.frames += 1
      seen.first = Math.min(seen.first, pts)
      seen.last = Math.max(seen.last, pts)
      if (flags.startsWith('K')) seen.keyframes.push(pts)
    },
  })
  if (code !== 0) throw wrong(playlist, `cannot be read: ${complaints.slice(-200)}`)
  return seen
}
