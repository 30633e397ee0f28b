import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type VideoManifest, WEBP_LONG_SIDE } from '../../lib/contract/manifest.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { runFfmpeg } from '../ffmpeg/ffmpeg.ts'
import { guardedInput } from '../ffmpeg/input.ts'
import type { ProbedSource } from '../ffmpeg/probe.ts'
import { decoderThreads } from '../ffmpeg/threads.ts'
import { derive } from '../images/derive.ts'
import { uploadImages } from '../images/upload-images.ts'
import { toneMap } from './filter-graph.ts'

export interface PosterRun {
  store: ObjectStore
  prefix: string
  source: Pick<ProbedSource, 'video' | 'hdr' | 'width' | 'height' | 'videoSeconds'>
  sourcePath: string
  /** Whether the video is an upload or the job's own output. */
  origin: 'upload' | 'own'
  /** Where the frame and the pictures of it are written. */
  folder: string
  cores: number
  signal: AbortSignal
  log: Log
}

const LIMIT_MS = 120_000
/** Out of so many frames, the one most like the others is taken: no flash, no fade. */
const CANDIDATES = 24

/** Makes and uploads the pictures of a frame. A video without them is still worth watching, so it never fails for them. */
export async function publishPoster(run: PosterRun): Promise<VideoManifest['images']> {
  try {
    const images = await makePoster(run)
    await uploadImages(run, images)
    return images
  } catch (error) {
    run.signal.throwIfAborted()
    run.log.warn({ err: error }, 'the video gets no picture')
    return undefined
  }
}

async function makePoster(run: PosterRun) {
  const { source, folder } = run
  const size = posterSize(source)
  // Many videos begin black; a damaged index may make seeking fail, and then the first frames have to do.
  const data = (await frameAt(run, size, 0.1 * source.videoSeconds)) ?? (await frameAt(run, size, 0))
  if (!data) throw new Error('No frame could be decoded')
  return derive({ data, ...size, channels: 3 }, folder)
}

async function frameAt(
  { source, sourcePath, origin, folder, cores, signal }: PosterRun,
  { width, height }: { width: number; height: number },
  seconds: number,
): Promise<Buffer | undefined> {
  const path = join(folder, 'frame.rgb')
  const filters = [
    ...(source.video.interlaced ? ['bwdif=mode=send_frame:deint=interlaced'] : []),
    `thumbnail=${CANDIDATES}`,
    ...toneMap(source.hdr, { width, height }),
    `scale=${width}:${height}:flags=bicubic`,
  ]
  await runFfmpeg({
    args: [
      ...guardedInput(origin, sourcePath, [
        '-threads',
        String(decoderThreads(cores, source)),
        '-ss',
        seconds.toFixed(3),
      ]),
      ...['-map', `0:${source.video.index}`, '-vf', filters.join(','), '-frames:v', '1', '-fps_mode', 'passthrough'],
      ...['-f', 'rawvideo', '-pix_fmt', 'rgb24', path],
    ],
    signal,
    limitMs: LIMIT_MS,
  })
  const data = await readFile(path)
  return data.length === width * height * 3 ? data : undefined
}

function posterSize({ width, height }: PosterRun['source']): { width: number; height: number } {
  const scale = Math.min(1, WEBP_LONG_SIDE / Math.max(width, height))
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) }
}
