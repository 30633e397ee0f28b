import { hash, randomBytes } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { EXIT } from '../../../lib/contract/job-result.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import { installed, runFfmpeg } from '../../ffmpeg/ffmpeg.ts'
import { guardedInput } from '../../ffmpeg/input.ts'
import type { ProbedSource } from '../../ffmpeg/probe.ts'
import { toNumber } from '../../ffmpeg/rational.ts'
import { presentationSeconds } from '../../ffmpeg/source.ts'
import { TransientError } from '../../runtime/failure.ts'
import { passArguments } from '../args.ts'
import type { EncodePass } from '../encode-pass.ts'
import type { Rendition } from '../ladder.ts'
import type { PassPart } from '../pass-window.ts'
import { explainPass, limitFor } from '../run-encode-pass.ts'
import { firstFrameOf, segmentLayout } from '../timeline.ts'
import { openSegmentReader, type VerifiedVideo, verifyVideo } from '../verify.ts'
import { type ChunkPart, type Protocol, renditionsOf, type SharedPlan } from './protocol.ts'

export interface ChunkTools {
  store: ObjectStore
  protocol: Protocol
  prefix: string
  /** For the files of one chunk, which are removed. */
  scratch: string
  cores: number
  signal: AbortSignal
}

export interface ChunkRun extends ChunkTools {
  plan: SharedPlan
  chunk: number
  source: ProbedSource
  sourcePath: string
  by: string
  /** 0 to 1. */
  onProgress?(fraction: number): void
  /** Refuses frames that were not decoded cleanly: where only a part of the source is read, that may be the reason. */
  refuseDamage?: boolean
  /** Whether it is still wanted: asked before anything is uploaded. */
  isWanted?(): Promise<boolean>
}

const AT_ONCE = 4

/**
 * Encodes a chunk, verifies it, uploads its segments and then writes its part, which is the commit: what dies before leaves
 * segments that no playlist will name.
 */
export async function encodeChunk(run: ChunkRun): Promise<void> {
  const { plan, chunk, protocol, by } = run
  const startedAt = performance.now()
  const folder = join(run.scratch, `chunk-${chunk}`)
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  try {
    const { videos, damaged, endedEarly } = await encodeAndVerify(run, folder)
    if (run.isWanted && !(await run.isWanted())) return
    for (const { name, segments } of videos) await uploadAll(run, folder, name, segments)
    failpoint('chunk.uploaded')
    if (run.isWanted && !(await run.isWanted())) return await removeAll(run, videos)
    const seconds = (performance.now() - startedAt) / 1000
    const part: ChunkPart = { version: 1, by, seconds, damaged, endedEarly, renditions: videos }
    await protocol.writePart(plan.id, chunk, part)
    failpoint('chunk.done')
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function removeAll({ store, prefix }: ChunkRun, videos: ChunkPart['renditions']): Promise<void> {
  for (const { uri } of videos.flatMap(({ segments }) => segments)) await store.delete(prefix + uri)
}

/** What is encoded alike by every pod. */
export type SharedPass = Pick<SharedPlan, 'grid' | 'segmentSeconds' | 'renditions' | 'accelerator' | 'preset'>

/** A digest of the encoder and of everything that it is told, but for which part and with how many threads. */
export async function encoderOf(shared: SharedPass, source: ProbedSource, signal: AbortSignal): Promise<string> {
  const pass = passOf(shared, source, { cores: 1, part: { firstSegment: 1, segments: 1, tag: 'x' } })
  const args = passArguments(pass, (options) => options, '')
  const { version } = await installed(signal)
  return hash('sha256', JSON.stringify([version, args])).slice(0, 16)
}

const passOf = (shared: SharedPass, source: ProbedSource, more: { cores: number; part: PassPart }): EncodePass => ({
  ...{ source, withAudio: false, timeline: { segmentSeconds: shared.segmentSeconds, grid: shared.grid } },
  ...{ renditions: shared.renditions, accelerator: shared.accelerator, preset: shared.preset },
  ...more,
})

async function encodeAndVerify(run: ChunkRun, folder: string) {
  const { plan, source, sourcePath, cores, signal } = run
  const { firstSegment, segments } = plan.chunks[run.chunk] ?? { firstSegment: 0, segments: undefined }
  const tag = `x${randomBytes(4).toString('hex')}`
  const renditions = renditionsOf(plan, run.chunk)
  const pass = passOf({ ...plan, renditions }, source, { cores, part: { firstSegment, segments, tag } })
  const seconds = secondsOf(pass)
  const report = await runFfmpeg({
    args: passArguments(pass, (options) => guardedInput('upload', sourcePath, options), folder),
    signal,
    limitMs: limitFor(seconds),
    onProgress: (p) => run.onProgress?.(Math.min(1, (p.seconds ?? 0) / Math.max(0.1, seconds))),
  }).catch((error: unknown) => {
    signal.throwIfAborted()
    throw explainPass(error, pass)
  })
  if (run.refuseDamage && (report.damaged > 0 || report.endedEarly)) {
    throw new TransientError(EXIT.verificationFailed, 'VerificationFailed', `${report.damaged} frames are damaged`)
  }
  const videos: ChunkPart['renditions'] = []
  for (const rendition of renditions) {
    const made = await verifyVideo(
      folder,
      rendition,
      layoutOf(pass, rendition),
      openSegmentReader(folder, signal).readAll,
    )
    videos.push({ name: rendition.name, ...described(made) })
  }
  return { videos, damaged: report.damaged, endedEarly: report.endedEarly }
}

const described = ({ codec, frames, first, segments }: VerifiedVideo) => ({ codec, frames, first, segments })

/** All frames of a chunk are due; how many the end of the video has is known when they are there. */
const layoutOf =
  ({ timeline, part }: EncodePass, { frameRate }: Rendition) =>
  (found: number) => {
    const { firstSegment = 0, segments } = part ?? {}
    const due = (k: number) => firstFrameOf(timeline, frameRate, k)
    const frames = segments === undefined ? found : due(firstSegment + segments) - due(firstSegment)
    return segmentLayout(timeline, frameRate, frames, firstSegment)
  }

function secondsOf({ source, timeline, part }: EncodePass): number {
  const { firstSegment = 0, segments } = part ?? {}
  const at = (k: number) => firstFrameOf(timeline, timeline.grid, k) / toNumber(timeline.grid)
  return (segments === undefined ? presentationSeconds(source) : at(firstSegment + segments)) - at(firstSegment)
}

async function uploadAll(
  { store, prefix, signal }: ChunkRun,
  folder: string,
  name: string,
  segments: readonly { uri: string; bytes: number }[],
): Promise<void> {
  for (let from = 0; from < segments.length; from += AT_ONCE) {
    await Promise.all(
      segments.slice(from, from + AT_ONCE).map(async ({ uri, bytes }) => {
        const options = { contentType: 'video/mp2t', signal }
        const { size } = await store.upload(join(folder, uri), prefix + uri, options)
        if (size === bytes) return
        throw new TransientError(EXIT.transient, 'StoreUnavailable', `${name} arrived with ${size} of ${bytes} bytes`)
      }),
    )
  }
}
