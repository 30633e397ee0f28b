import { open, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { runFfmpeg, runFfprobe } from '../ffmpeg/ffmpeg.ts'
import { guardedInput } from '../ffmpeg/input.ts'
import type { ProbedSource } from '../ffmpeg/probe.ts'
import { presentationSeconds } from '../ffmpeg/source.ts'
import { hevcArguments } from './args.ts'
import { type CopiedTop, copiedLayout } from './copied-top.ts'
import { beginsWithPicture, readInitialization } from './hevc-init.ts'
import type { Rendition } from './ladder.ts'
import type { Segment } from './media-playlist.ts'
import { readPlaylist } from './publisher.ts'
import { limitFor } from './run-encode-pass.ts'
import type { StreamFacts } from './segment-facts.ts'
import { timelineOf } from './timeline.ts'
import { type VerifiedVideo, verifySameSpan, verifyVideo, wrong } from './verify.ts'

export interface HevcRun {
  source: ProbedSource
  sourcePath: string
  /** What its packets promise. */
  copied: CopiedTop
  segmentSeconds: number
  /** Where its files go, and nothing else. */
  folder: string
  /** The renditions beside which it is added. */
  videos: readonly (VerifiedVideo & { rendition: Rendition })[]
  signal: AbortSignal
}

/** Of parameter sets, which have some hundred bytes. */
const MAX_INITIALIZATION = 2 ** 20

/**
 * Cuts the HEVC of a source into fragments of MP4 and verifies them as other renditions are, and that a decoder can begin with
 * each segment. Throws where anything is not as its packets promised.
 */
export async function makeHevc(run: HevcRun): Promise<VerifiedVideo & { rendition: Rendition }> {
  const { source, copied, folder, segmentSeconds, signal, videos } = run
  const { rendition } = copied
  const limitMs = limitFor(presentationSeconds(source))
  const args = hevcArguments(
    source,
    { rendition, segmentSeconds },
    (o) => guardedInput('upload', run.sourcePath, o),
    folder,
  )
  await runFfmpeg({ args, signal, limitMs })
  const codec = await cleanInitialization(folder, rendition.name)
  const layout = copiedLayout(copied, timelineOf([rendition], segmentSeconds))
  const made = await verifyVideo(
    folder,
    rendition,
    () => layout,
    (segments) => readStream(run, segments, codec),
  )
  await decodeKeyframes(run, layout.keyframes.length, limitMs)
  const whole = { ...made, rendition }
  verifySameSpan([...videos, whole])
  return whole
}

/** Removes what the encoder said beside its parameter sets, and returns the codec that these name. */
async function cleanInitialization(folder: string, name: string): Promise<string> {
  const map = (await readPlaylist(join(folder, `${name}.m3u8`)))?.map
  if (map === undefined) throw wrong(name, 'its playlist has no initialization')
  const path = join(folder, map)
  if ((await stat(path)).size > MAX_INITIALIZATION) throw wrong(map, 'is too large')
  const read = readInitialization(await readFile(path))
  if (!read) throw wrong(map, 'does not describe one stream of HEVC')
  await writeFile(path, read.bytes)
  return read.codec
}

/** What the packets of all segments say; throws where one does not begin with a keyframe. */
async function readStream(
  run: HevcRun,
  segments: readonly Pick<Segment, 'uri'>[],
  codec: string,
): Promise<StreamFacts> {
  const { folder, copied } = run
  const { name } = copied.rendition
  const facts = await packetsOf(run, join(folder, `${name}.m3u8`))
  if (facts.frames === 0) throw wrong(name, 'it has no frames')
  for (const { uri } of segments)
    if (!(await beginsWithKeyframe(join(folder, uri)))) throw wrong(uri, 'does not begin with a keyframe')
  return { ...facts, codec }
}

async function packetsOf({ source, signal }: HevcRun, playlist: string): Promise<Omit<StreamFacts, 'codec'>> {
  const seen = { frames: 0, first: Number.POSITIVE_INFINITY, last: 0, keyframes: [] as number[] }
  const { code, complaints } = await runFfprobe({
    args: [
      ...['-select_streams', 'v:0', '-show_entries', 'packet=pts_time,flags', '-of', 'csv=p=0'],
      ...guardedInput('ownHevc', playlist),
    ],
    signal,
    limitMs: limitFor(presentationSeconds(source)),
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

/** Boxes of a segment before its media: `styp`, `sidx`, `moof`. */
const MAX_BOXES = 8

async function beginsWithKeyframe(path: string): Promise<boolean> {
  const handle = await open(path)
  try {
    const bytes = Buffer.alloc(14)
    for (let at = 0, k = 0; k < MAX_BOXES; k++) {
      const { bytesRead } = await handle.read(bytes, 0, bytes.length, at)
      if (bytesRead < bytes.length) return false
      if (bytes.toString('latin1', 4, 8) === 'mdat') return beginsWithPicture(bytes.subarray(8))
      at += bytes.readUInt32BE(0)
    }
    return false
  } finally {
    await handle.close()
  }
}

/** ffmpeg shows what it could make of a picture whose parameter sets are not those that it was written with. */
const COMPLAINT = /^\[hevc @ [^\]]*\] \[(error|fatal)\]/m

/** Of all frames these are what a decoder needs nothing before for; the others were decoded for the other renditions. */
async function decodeKeyframes({ folder, copied, signal }: HevcRun, due: number, limitMs: number): Promise<void> {
  const { name } = copied.rendition
  const input = guardedInput('ownHevc', join(folder, `${name}.m3u8`), ['-threads', '1', '-skip_frame', 'nokey'])
  let frames = 0
  const { damaged, tail } = await runFfmpeg({
    args: [...input, '-map', '0:v:0', '-fps_mode', 'passthrough', '-f', 'null', '-'],
    ...{ signal, limitMs },
    onProgress: (p) => {
      frames = p.frames
    },
  })
  if (damaged > 0 || COMPLAINT.test(tail) || frames !== due)
    throw wrong(name, `${frames} of ${due} keyframes can be decoded: ${tail.slice(-200)}`)
}
