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
  return toProbedSource(path, await readHeard(path, signal), signal)
}

/** The same, and the packets of the video in the order of the file, unless these have to be listed by themselves. */
export async function probeWithPackets(
  path: string,
  signal: AbortSignal,
): Promise<{ source: ProbedSource; packets: readonly ProbedPacket[] | undefined }> {
  const size = await sizeOf(path)
  const listed = size <= LISTED_BYTES ? await readWithPackets(path, signal) : undefined
  const heard = listed ? heardOf(listed, firstPackets(listed.packets)) : await readHeard(path, signal)
  const source = await toProbedSource(path, heard, signal)
  const packets = listed?.packets.filter((packet) => packet.stream_index === source.video.index).map(toPacket)
  return { source, packets }
}

async function sizeOf(path: string): Promise<number> {
  const { size } = await stat(path)
  if (size > LIMITS.bytes) throw badInput('LimitExceeded', `The file is larger than ${sizeText(LIMITS.bytes)}`)
  if (size === 0) throw badInput('CorruptInput', 'The file is empty')
  return size
}

async function toProbedSource(path: string, heard: Heard, signal: AbortSignal): Promise<ProbedSource> {
  const claimed = withFirstSound(toSource(heard.document), heard.firsts)
  if (claimed.videoSeconds !== null && !isEndless(claimed)) {
    const whole = { ...claimed, videoSeconds: claimed.videoSeconds }
    if (presentationSeconds(whole) <= LIMITS.sparseSeconds) return whole
  }
  const { video, audio, startSeconds } = claimed
  const tracks = await measure(path, isEndless(claimed) ? undefined : video.index, signal)
  const secondsOf = (index: number) => (tracks.get(index)?.end ?? 0) - startSeconds
  const frames = tracks.get(video.index)?.packets ?? 0
  const videoSeconds = claimed.videoSeconds ?? secondsOf(video.index)
  if (frames === 0 || videoSeconds <= 0) throw badInput('CorruptInput', 'The video has no frames')
  const audioSeconds = audio && (claimed.audioSeconds ?? secondsOf(audio.index))
  const whole = { ...claimed, videoSeconds, audioSeconds }
  refuseTooLong(presentationSeconds(whole))
  // Sound that has to be measured does not count: a call may still be heard long after its last picture.
  refuseSparse(frames, presentationSeconds({ ...claimed, videoSeconds }))
  return { ...whole, ...measuredRate(whole, frames / videoSeconds) }
}

/** It has sound, and the container does not say where that ends. */
const isEndless = ({ audio, audioSeconds }: Source) => audio !== null && audioSeconds === null

interface Heard {
  document: ProbeDocument
  firsts: Firsts
}
/** The time stamps of the first packets of tracks; NaN of one without. */
type Firsts = ReadonlyMap<number, number>

/** Without the sound that has no packets. Screen recorders and browsers leave such tracks, and not every container tells. */
const heardOf = (document: ProbeDocument, firsts: Firsts): Heard => ({
  document: { ...document, streams: document.streams.filter((s) => s.codec_type !== 'audio' || firsts.has(s.index)) },
  firsts,
})

/**
 * With the beginning of the sound as its first packet has it: where the container does not say it, as in Matroska, ffprobe
 * reads no further than 5 seconds, and names the beginning of the file for sound that begins later.
 */
function withFirstSound(source: Source, firsts: Firsts): Source {
  const { audio } = source
  const first = (audio ? (firsts.get(audio.index) ?? Number.NaN) : Number.NaN) - source.startSeconds
  return audio && first > audio.startSeconds ? { ...source, audio: { ...audio, startSeconds: first } } : source
}

async function readHeard(path: string, signal: AbortSignal): Promise<Heard> {
  const document = await readDocument(path, signal)
  const { audio } = toSource(document)
  const isCounted = document.streams.some((s) => s.index === audio?.index && s.nb_frames !== undefined)
  if (!audio || isCounted) return { document, firsts: new Map() }
  const first = await firstPacket(path, audio.index, signal)
  if (first !== undefined) return { document, firsts: new Map([[audio.index, first]]) }
  const tracks = await measure(path, undefined, signal)
  return heardOf(document, new Map([...tracks].map(([index, { start }]) => [index, start])))
}

/** Its time stamp, NaN where it has none; undefined where there is no packet. Reads no further than that. */
async function firstPacket(path: string, index: number, signal: AbortSignal): Promise<number | undefined> {
  let found: number | undefined
  const first = ['-select_streams', String(index), '-read_intervals', '%+#1']
  const onLine = (line: string) => {
    if (line !== '') found ??= Number.parseFloat(line)
  }
  const args = [...first, '-show_entries', 'packet=pts_time', '-of', 'csv=p=0', ...guardedInput('upload', path)]
  await runFfprobe({ args, signal, limitMs: SCAN_LIMIT_MS, onLine })
  return found
}

function firstPackets(packets: z.output<typeof WithPackets>['packets']): Firsts {
  const firsts = new Map<number, number>()
  for (const { stream_index, pts_time } of packets) {
    if (!firsts.has(stream_index)) firsts.set(stream_index, Number.parseFloat(pts_time ?? ''))
  }
  return firsts
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

interface Track {
  packets: number
  /** The time stamp of the first packet. */
  start: number
  /** The time stamp at which the last packet ends. */
  end: number
}

/**
 * Reads the time stamp of every packet: recordings made by browsers declare no duration, and a declared rate may be wrong.
 * Of one track, or of all.
 */
async function measure(
  path: string,
  index: number | undefined,
  signal: AbortSignal,
): Promise<ReadonlyMap<number, Track>> {
  const tracks = new Map<number, Track>()
  await runFfprobe({
    args: [
      ...(index === undefined ? [] : ['-select_streams', String(index)]),
      ...['-show_entries', 'packet=stream_index,pts_time,duration_time'],
      ...['-of', 'csv=p=0', ...guardedInput('upload', path)],
    ],
    signal,
    limitMs: SCAN_LIMIT_MS,
    onLine: (line) => {
      const [of, pts, duration = 0] = line.split(',').map(Number)
      if (of === undefined || pts === undefined || !Number.isFinite(pts)) return
      const track = tracks.get(of) ?? { packets: 0, start: pts, end: 0 }
      track.packets += 1
      track.end = Math.max(track.end, pts + (Number.isFinite(duration) ? duration : 0))
      tracks.set(of, track)
    },
  })
  return tracks
}
