import { runFfprobe } from '../ffmpeg/ffmpeg.ts'
import { guardedInput } from '../ffmpeg/input.ts'
import type { ProbedSource } from '../ffmpeg/probe.ts'
import { type CopiedTop, copyFault, openCopyScan } from './copied-top.ts'
import { hevcFault } from './hevc-copy.ts'
import { ownRendition, type Rendition } from './ladder.ts'
import { type Timeline, timelineOf } from './timeline.ts'

const LIMIT_MS = 600_000

export interface TopScan {
  source: ProbedSource
  /** Smallest first. */
  ladder: readonly Rendition[]
  segmentSeconds: number
  signal: AbortSignal
}

/**
 * Decides whether the video stream of a file can be served as the largest rendition; if not, says why. Reads the file's
 * packets, and decodes none: about a hundredth of the playing time, and only where the container promises that it can.
 */
export async function scanTop(
  path: string,
  { source, ladder, segmentSeconds, signal }: TopScan,
): Promise<CopiedTop | string> {
  const fault = copyFault(source, ladder)
  const top = ladder.at(-1)
  if (fault !== undefined || !top) return fault ?? 'there is none'
  return scanPackets(path, { source, top, timeline: timelineOf(ladder, segmentSeconds), signal })
}

/** The same for a video that players of HEVC get beside the renditions: it is cut where its own keyframes are. */
export async function scanHevc(
  path: string,
  { source, segmentSeconds, signal }: Omit<TopScan, 'ladder'>,
): Promise<CopiedTop | string> {
  const top = ownRendition(source)
  const fault = hevcFault(source, top)
  return fault ?? scanPackets(path, { source, top, timeline: timelineOf([top], segmentSeconds), signal })
}

interface PacketScan {
  source: ProbedSource
  top: Rendition
  timeline: Timeline
  signal: AbortSignal
}

async function scanPackets(path: string, { source, top, timeline, signal }: PacketScan): Promise<CopiedTop | string> {
  const scan = openCopyScan({ top, timeline, seconds: source.videoSeconds })
  const origin = source.startSeconds
  const reading = runFfprobe({
    args: [
      ...[
        '-select_streams',
        String(source.video.index),
        '-show_entries',
        'packet=pts_time,size,flags:packet_side_data=side_data_type',
      ],
      ...['-of', 'csv=p=0', ...guardedInput('upload', path)],
    ],
    signal,
    limitMs: LIMIT_MS,
    onLine: (line) => {
      if (line === '') return
      const [pts = '', bytes = '', flags = '', ...sideData] = line.split(',')
      const isDiscarded = flags.includes('D')
      scan.add({
        pts: Number.parseFloat(pts) - origin,
        bytes: Number(bytes),
        isKey: flags.startsWith('K'),
        isDiscarded,
        isOther: sideData.includes('New Extradata'),
      })
    },
  })
  const isRead = await reading.then(
    ({ code }) => code === 0,
    () => signal.throwIfAborted(),
  )
  // What a file has that cannot be read is for the decoder to judge.
  return isRead ? scan.end() : 'its packets cannot be read'
}
