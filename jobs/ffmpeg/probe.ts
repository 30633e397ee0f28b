import { stat } from 'node:fs/promises'
import * as z from 'zod'
import { sizeText } from '../../lib/contract/size.ts'
import { badInput } from '../runtime/failure.ts'
import { MAX_LINE } from '../runtime/tool-process.ts'
import { runFfprobe } from './ffmpeg.ts'
import { measuredRate } from './frame-rate.ts'
import { guardedInput } from './input.ts'
import {
  LIMITS,
  ProbeDocument,
  presentationSeconds,
  refuseSparse,
  refuseTooLong,
  type Source,
  toSource,
} from './source.ts'

const LIMIT_MS = 60_000
const SCAN_LIMIT_MS = 600_000
const MAX_DOCUMENT = 4 * 1024 * 1024

export type ProbedSource = Source & { videoSeconds: number }

/** What a container says of one packet. */
export interface ProbedPacket {
  /** Seconds; NaN where it has none. */
  pts: number
  bytes: number
  isKey: boolean
  /** An edit list hides it. */
  isDiscarded: boolean
  /** It comes with other parameter sets than the stream began with. */
  isOther: boolean
}

/** Of files up to this size, all packets are listed together with what the file is, by one process in place of two. */
const LISTED_BYTES = 32 * 1024 * 1024

/**
 * Probes an upload. Throws a PermanentError when the file is at fault, any other error when probing itself failed. In a
 * longer video it counts every frame, because the cost of the encode follows from the duration that the file claims.
 */
export async function probe(path: string, signal: AbortSignal): Promise<ProbedSource> {
  await sizeOf(path)
  return toProbedSource(path, await readDocument(path, signal), signal)
}

/** The same, and the packets of the video in the order of the file, unless these have to be listed by themselves. */
export async function probeWithPackets(
  path: string,
  signal: AbortSignal,
): Promise<{ source: ProbedSource; packets: readonly ProbedPacket[] | undefined }> {
  const size = await sizeOf(path)
  const listed = size <= LISTED_BYTES ? await readWithPackets(path, signal) : undefined
  const source = await toProbedSource(path, listed ?? (await readDocument(path, signal)), signal)
  const packets = listed?.packets.filter((packet) => packet.stream_index === source.video.index).map(toPacket)
  return { source, packets }
}

async function sizeOf(path: string): Promise<number> {
  const { size } = await stat(path)
  if (size > LIMITS.bytes) throw badInput('LimitExceeded', `The file is larger than ${sizeText(LIMITS.bytes)}`)
  if (size === 0) throw badInput('CorruptInput', 'The file is empty')
  return size
}

async function toProbedSource(path: string, document: ProbeDocument, signal: AbortSignal): Promise<ProbedSource> {
  const source = toSource(document)
  const claimed = source.videoSeconds
  if (claimed !== null && presentationSeconds({ ...source, videoSeconds: claimed }) <= LIMITS.sparseSeconds) {
    return { ...source, videoSeconds: claimed }
  }
  const measured = await measure(path, source, signal)
  const videoSeconds = claimed ?? measured.seconds
  refuseTooLong(videoSeconds)
  const whole = { ...source, videoSeconds }
  refuseSparse(measured.frames, presentationSeconds(whole))
  return { ...whole, ...measuredRate(whole, measured.frames / videoSeconds) }
}

const DOCUMENT = ['-show_format', '-show_streams']

async function readDocument(path: string, signal: AbortSignal): Promise<ProbeDocument> {
  const { code, complaints, text } = await runForText(
    ['-print_format', 'json', ...DOCUMENT, ...guardedInput('upload', path)],
    signal,
  )
  if (code !== 0) throw refusal(complaints)
  const parsed = ProbeDocument.safeParse(parseJson(text))
  if (!parsed.success) throw badInput('CorruptInput', 'The file cannot be read', { cause: parsed.error })
  return parsed.data
}

const PACKET_ENTRIES = 'packet=stream_index,pts_time,size,flags:packet_side_data=side_data_type'
const ListedPacket = z.object({
  stream_index: z.number(),
  pts_time: z.string().optional(),
  size: z.string(),
  flags: z.string(),
  side_data_list: z.array(z.object({ side_data_type: z.string().optional() })).default([]),
})
const WithPackets = ProbeDocument.extend({ packets: z.array(ListedPacket) })

/** Undefined where the file has too many packets, or any that cannot be read. */
async function readWithPackets(path: string, signal: AbortSignal): Promise<z.output<typeof WithPackets> | undefined> {
  // All of a packet in one line; also all tags of the file, which may be more than a line may have.
  const args = ['-print_format', 'json=compact=1', ...DOCUMENT, '-show_entries', PACKET_ENTRIES]
  const read = await runForText([...args, ...guardedInput('upload', path)], signal).catch(() => signal.throwIfAborted())
  return read?.code === 0 && !read.isCut ? WithPackets.safeParse(parseJson(read.text)).data : undefined
}

/** Times and flags are those of `ffprobe -show_packets`. */
const toPacket = ({ pts_time, size, flags, side_data_list }: z.output<typeof ListedPacket>): ProbedPacket =>
  packetOf(
    pts_time,
    size,
    flags,
    side_data_list.map(({ side_data_type }) => side_data_type),
  )

export const packetOf = (
  pts: string | undefined,
  bytes: string,
  flags: string,
  sideData: readonly (string | undefined)[],
): ProbedPacket => ({
  pts: Number.parseFloat(pts ?? ''),
  bytes: Number(bytes),
  isKey: flags.startsWith('K'),
  isDiscarded: flags.includes('D'),
  isOther: sideData.includes('New Extradata'),
})

/** What it prints in lines, joined; more than a document has is cut, and does not parse. `isCut`: a line was too long. */
async function runForText(args: readonly string[], signal: AbortSignal) {
  let text = ''
  let isCut = false
  const onLine = (line: string) => {
    const isLong = line.length >= MAX_LINE
    isCut ||= isLong
    // A tag, which is text of the uploader and has a line of its own.
    if (text.length < MAX_DOCUMENT) text += isLong ? `"cut": ""${line.endsWith(',') ? ',' : ''}` : line
  }
  const { code, complaints } = await runFfprobe({ args, signal, limitMs: LIMIT_MS, onLine })
  return { code, complaints, text, isCut }
}

function refusal(complaints: string) {
  const [, codec] = /Codec \(([a-z0-9_]+)\) not on whitelist/i.exec(complaints) ?? []
  if (codec) return badInput('UnsupportedCodec', `The format ${codec} is not supported`)
  if (/Format not on whitelist/.test(complaints)) return badInput('UnsupportedFormat', 'The file is not a video file')
  // The file exists, so the remaining cause of an error is its content.
  return badInput('CorruptInput', 'The file cannot be read as a video')
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * Reads the time stamp of every packet: recordings made by browsers declare no duration, and a declared rate may be wrong.
 */
async function measure(
  path: string,
  source: Source,
  signal: AbortSignal,
): Promise<{ seconds: number; frames: number }> {
  let [from, to, frames] = [Number.POSITIVE_INFINITY, 0, 0]
  await runFfprobe({
    args: [
      ...['-select_streams', String(source.video.index), '-show_entries', 'packet=pts_time,duration_time'],
      ...['-of', 'csv=p=0', ...guardedInput('upload', path)],
    ],
    signal,
    limitMs: SCAN_LIMIT_MS,
    onLine: (line) => {
      const [pts, duration] = line.split(',').map(Number)
      if (pts === undefined || !Number.isFinite(pts)) return
      frames += 1
      from = Math.min(from, pts)
      to = Math.max(to, pts + (Number.isFinite(duration) ? (duration ?? 0) : 0))
    },
  })
  if (to <= 0) throw badInput('CorruptInput', 'The video has no frames')
  return { seconds: to - Math.min(from, 0), frames }
}
