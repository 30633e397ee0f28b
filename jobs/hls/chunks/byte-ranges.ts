import { runFfprobe } from '../../ffmpeg/ffmpeg.ts'
import { guardedInput } from '../../ffmpeg/input.ts'
import type { ProbedSource } from '../../ffmpeg/probe.ts'
import type { ByteRange } from './protocol.ts'

/** Seconds of the source that a chunk's encoder reads; `to` is undefined for the last one. */
export interface TimeRange {
  from: number
  /** When its first picture is shown. The decoder has it only if it was stored for a time since `from`. */
  start: number
  to: number | undefined
}

export interface FileRanges {
  /** What every reader needs besides. */
  header: ByteRange[]
  /** Of each time range. */
  ranges: ByteRange[]
  /** The first picture of a range is older than what its decoder reads: the next one would be shown in its place. */
  hasGap: boolean
}

export interface PacketAt {
  /** Seconds from the start of the presentation. */
  pts: number
  bytes: number
  /** Of its first byte in the file. */
  at: number
  isKey: boolean
}

/** Demuxers look at the first packets of each stream, and read from the beginning of a cluster. */
const SLACK_BYTES = 1024 * 1024
/** Clusters of Matroska need not begin with a keyframe; writers make them up to five seconds or some megabytes long. */
const CLUSTER_BYTES = 16 * 1024 * 1024
/** Containers round times to milliseconds. */
const ROUNDING_SECONDS = 0.001
const OPENING_BYTES = 4 * 1024 * 1024

/**
 * Finds which bytes of a file a decoder reads for each time range, from its packets in the order of the file: from the
 * keyframe before the one that it needs to the last packet of the range. It may be wrong for files whose index lies between
 * the packets; readers then take the whole file. Pure.
 */
export function openRangeScan(times: readonly TimeRange[], fileBytes: number, slackBytes = SLACK_BYTES) {
  // What comes before the first picture of a video shows that one.
  const found = times.map((time): Found => ({ time, from: fileBytes, to: 0, keys: [0, 0], isGap: time.start > 0 }))
  let [first, last] = [fileBytes, 0]

  return {
    add({ pts, bytes, at, isKey }: PacketAt): void {
      if (!(at >= 0 && bytes > 0 && at + bytes <= fileBytes)) return
      first = Math.min(first, at)
      last = Math.max(last, at + bytes)
      for (const one of found) look(one, { pts, bytes, at, isKey })
    },
    end: (): FileRanges => ({
      header: [
        [0, Math.min(fileBytes, first + OPENING_BYTES)],
        [last, fileBytes],
      ],
      hasGap: found.some(({ isGap }) => isGap),
      ranges: found.map(({ from, to, keys: [key] }) => [
        Math.max(0, Math.min(from, key) - slackBytes),
        Math.min(fileBytes, Math.max(from, to) + SLACK_BYTES),
      ]),
    }),
  }
}

interface Found extends Record<'from' | 'to', number> {
  time: TimeRange
  /** The last two keyframes at or before its beginning. */
  keys: [number, number]
  isGap: boolean
}

function look(found: Found, { pts, bytes, at, isKey }: PacketAt): void {
  const { from, start, to = Number.POSITIVE_INFINITY } = found.time
  if (isKey && pts <= from) found.keys = [found.keys[1], at]
  if (pts < from || pts > to) return
  if (pts <= start + ROUNDING_SECONDS) found.isGap = false
  found.from = Math.min(found.from, at)
  found.to = Math.max(found.to, at + bytes)
}

const LIMIT_MS = 600_000

export async function scanRanges(
  path: string,
  {
    source,
    times,
    fileBytes,
    signal,
  }: { source: ProbedSource; times: readonly TimeRange[]; fileBytes: number; signal: AbortSignal },
): Promise<FileRanges | undefined> {
  const slack = source.container.includes('matroska') ? CLUSTER_BYTES : SLACK_BYTES
  const scan = openRangeScan(times, fileBytes, slack)
  const reading = runFfprobe({
    args: [
      ...['-select_streams', String(source.video.index), '-show_entries', 'packet=pts_time,size,pos,flags'],
      ...['-of', 'csv=p=0', ...guardedInput('upload', path)],
    ],
    signal,
    limitMs: LIMIT_MS,
    onLine: (line) => {
      const [pts = '', bytes = '', at = '', flags = ''] = line.split(',')
      scan.add({
        pts: Number.parseFloat(pts) - source.startSeconds,
        bytes: Number(bytes),
        at: Number(at),
        isKey: flags.startsWith('K'),
      })
    },
  })
  // What a file has that cannot be listed is for the decoder to judge.
  const isRead = await reading.then(
    ({ code }) => code === 0,
    () => signal.throwIfAborted(),
  )
  return isRead ? scan.end() : undefined
}
