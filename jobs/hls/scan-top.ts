import { runFfprobe } from '../ffmpeg/ffmpeg.ts'
import { guardedInput } from '../ffmpeg/input.ts'
import { type ProbedPacket, type ProbedSource, packetOf } from '../ffmpeg/probe.ts'
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
  /** Of the video, where they were listed already. */
  packets?: readonly ProbedPacket[] | undefined
  signal: AbortSignal
}

/**
 * Decides whether the video stream of a file can be served as the largest rendition; if not, says why. Reads the file's
 * packets, and decodes none: about a hundredth of the playing time, and only where the container promises that it can.
 */
export async function scanTop(
  path: string,
  { source, ladder, segmentSeconds, packets, signal }: TopScan,
): Promise<CopiedTop | string> {
  const fault = copyFault(source, ladder)
  const top = ladder.at(-1)
  if (fault !== undefined || !top) return fault ?? 'there is none'
  return scanPackets(path, { source, top, timeline: timelineOf(ladder, segmentSeconds), packets, signal })
}

/** The same for a video that players of HEVC get beside the renditions: it is cut where its own keyframes are. */
export async function scanHevc(
  path: string,
  { source, segmentSeconds, packets, signal }: Omit<TopScan, 'ladder'>,
): Promise<CopiedTop | string> {
  const top = ownRendition(source)
  const fault = hevcFault(source, top)
  return fault ?? scanPackets(path, { source, top, timeline: timelineOf([top], segmentSeconds), packets, signal })
}

interface PacketScan {
  source: ProbedSource
  top: Rendition
  timeline: Timeline
  packets: readonly ProbedPacket[] | undefined
  signal: AbortSignal
}

async function scanPackets(path: string, scanned: PacketScan): Promise<CopiedTop | string> {
  const { source, top, timeline, packets } = scanned
  const scan = openCopyScan({ top, timeline, seconds: source.videoSeconds })
  const add = (packet: ProbedPacket) => scan.add({ ...packet, pts: packet.pts - source.startSeconds })
  if (packets) for (const packet of packets) add(packet)
  // What a file has that cannot be read is for the decoder to judge.
  else if (!(await listPackets(path, scanned, add))) return 'its packets cannot be read'
  return scan.end()
}

/** False where they cannot be read. */
function listPackets(path: string, { source, signal }: PacketScan, add: (packet: ProbedPacket) => void) {
  const entries = 'packet=pts_time,size,flags:packet_side_data=side_data_type'
  const args = ['-select_streams', String(source.video.index), '-show_entries', entries, '-of', 'csv=p=0']
  const reading = runFfprobe({
    args: [...args, ...guardedInput('upload', path)],
    signal,
    limitMs: LIMIT_MS,
    onLine: (line) => {
      if (line === '') return
      const [pts, bytes = '', flags = '', ...sideData] = line.split(',')
      add(packetOf(pts, bytes, flags, sideData))
    },
  })
  return reading.then(
    ({ code }) => code === 0,
    () => {
      signal.throwIfAborted()
      return false
    },
  )
}
