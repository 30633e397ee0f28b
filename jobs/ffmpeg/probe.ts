import { stat } from 'node:fs/promises'
import { sizeText } from '../../lib/contract/size.ts'
import { badInput } from '../runtime/failure.ts'
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

/**
 * Probes an upload. Throws a PermanentError when the file is at fault, any other error when probing itself failed. In a
 * longer video it counts every frame, because the cost of the encode follows from the duration that the file claims.
 */
export async function probe(path: string, signal: AbortSignal): Promise<ProbedSource> {
  const { size } = await stat(path)
  if (size > LIMITS.bytes) throw badInput('LimitExceeded', `The file is larger than ${sizeText(LIMITS.bytes)}`)
  if (size === 0) throw badInput('CorruptInput', 'The file is empty')
  const source = toSource(await readDocument(path, signal))
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

async function readDocument(path: string, signal: AbortSignal): Promise<ProbeDocument> {
  let text = ''
  const { code, complaints } = await runFfprobe({
    args: ['-print_format', 'json', '-show_format', '-show_streams', ...guardedInput('upload', path)],
    signal,
    limitMs: LIMIT_MS,
    onLine: (line) => {
      if (text.length < MAX_DOCUMENT) text += line
    },
  })
  if (code !== 0) throw refusal(complaints)
  const parsed = ProbeDocument.safeParse(parseJson(text))
  if (!parsed.success) throw badInput('CorruptInput', 'The file cannot be read', { cause: parsed.error })
  return parsed.data
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
