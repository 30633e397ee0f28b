import { runFfprobe } from '../../ffmpeg/ffmpeg.ts'
import { guardedInput } from '../../ffmpeg/input.ts'
import type { ProbedSource } from '../../ffmpeg/probe.ts'
import type { ByteRange } from './protocol.ts'

/** Seconds of the source that a chunk's encoder reads; `to` is undefined for the last one. */
export interface TimeRange {
  from: number
  to: number | undefined
}

export interface FileRanges {
  /** What every reader needs besides. */
  header: ByteRange[]
  /** Of each time range. */
  ranges: ByteRange[]
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
const OPENING_BYTES = 4 * 1024 * 1024

/**
 * Finds which bytes of a file a decoder reads for each time range, from its packets in the order of the file: from the
 * keyframe before the one that it needs to the last packet of the range. It may be wrong for files whose index lies between
 * the packets; readers then take the whole file. Pure.
 */
export function openRangeScan(times: readonly TimeRange[], fileBytes: number, slackBytes = SLACK_BYTES) {
  const found = times.map((time) => ({ time, from: fileBytes, to: 0, keys: [0, 0] as [number, number] }))
  let [first, last] = [fileBytes, 0]

  return {
    add({ pts, bytes, at, isKey }: PacketAt): void {
      if (!(at >= 0 && bytes > 0 && at + bytes <= fileBytes)) return
      first = Math.min(first, at)
      last = Math.max(last, at + bytes)
      for (const one of found) {
        const { from, to = Number.POSITIVE_INFINITY } = one.time
        // The last two keyframes at or before its beginning.
        if (isKey && pts <= from) one.keys = [one.keys[1], at]
        if (pts < from || pts > to) continue
        one.from = Math.min(one.from, at)
        one.to = Math.max(one.to, at + bytes)
      }
    },
    end: (): FileRanges => ({
      header: [
        [0, Math.min(fileBytes, first + OPENING_BYTES)],
        [last, fileBytes],
      ],
      ranges: found.map(({ from, to, keys: [key] }) => [
        Math.max(0, Math.min(from, key) - slackBytes),
        Math.min(fileBytes, Math.max(from, to) + SLACK_BYTES),
      ]),
    }),
  }
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
