import { mkdir, rm } from 'node:fs/promises'
import { EXIT } from '../../lib/contract/job-result.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { Accelerator } from '../ffmpeg/accelerator.ts'
import type { Complaints } from '../ffmpeg/ffmpeg.ts'
import type { ProbedSource } from '../ffmpeg/probe.ts'
import { presentationSeconds } from '../ffmpeg/source.ts'
import { badInput, TransientError } from '../runtime/failure.ts'
import type { Sharing } from './chunks/sharing.ts'
import type { CopiedTop } from './copied-top.ts'
import { earlyMasterPublisher } from './early-master.ts'
import { AUDIO_NAME, type Preset, streamNames } from './encode-pass.ts'
import type { FirstPass } from './first-pass.ts'
import { refuseBroken } from './integrity.ts'
import type { Rendition } from './ladder.ts'
import { type PassPlan, planTakeover } from './pass-plan.ts'
import type { Publisher } from './publisher.ts'
import { explainRefusal, runEncodePass } from './run-encode-pass.ts'
import { segmentLayout, type Timeline, timelineOf } from './timeline.ts'
import {
  openSegmentReader,
  type SegmentReader,
  type VerifiedStream,
  type VerifiedVideo,
  verifyAudio,
  verifySameSpan,
  verifyVideo,
} from './verify.ts'

export interface LadderRun {
  source: ProbedSource
  sourcePath: string
  ladder: readonly Rendition[]
  /** The top rendition, where the source's own stream serves as it; else why it does not. */
  copied: CopiedTop | string
  segmentSeconds: number
  /** For files of its own, beside `folder`. */
  scratch: string
  folder: string
  publisher: Publisher
  /** Unset: this pod makes everything. */
  sharing?: Sharing | undefined
  /** Throws where another attempt, which was taken for dead, has committed: what players have must not be replaced by less. */
  isNotConverted?: (() => Promise<void>) | undefined
  accelerator: Accelerator['kind']
  cores: number
  preset: Preset
  signal: AbortSignal
  log: Log
  onPlanned: (reason: string) => void
  onProgress: (fraction: number) => void
  onPlayable: () => void
}

export type MadeVideo = VerifiedVideo & { rendition: Rendition }

export interface EncodedLadder {
  /** Smallest first. */
  videos: MadeVideo[]
  audio: VerifiedStream | null
  /** How they were made, and why. */
  planReason: string
  /** The decoder had nothing to complain of. */
  isWhole: boolean
}

export async function emptyFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder)
}

/** All passes together. Throws where the renditions do not span the same frames: of a GPU, the error lets the CPU make them. */
export function ladderOf(
  run: Pick<LadderRun, 'accelerator' | 'copied'>,
  passes: readonly (MadePass | undefined)[],
  planReason: string,
): EncodedLadder {
  const made = passes.filter((pass) => pass !== undefined)
  const videos = made.flatMap((pass) => pass.videos)
  try {
    verifySameSpan(videos)
  } catch (error) {
    // Beside a copy, it may be the copy that is not what was promised.
    throw typeof run.copied === 'string' ? explainRefusal(error, run) : error
  }
  failpoint('job.encoded')
  videos.sort((a, b) => a.rendition.height - b.rendition.height)
  const isWhole = made.every((pass) => pass.isWhole)
  return { videos, audio: made.find((pass) => pass.audio)?.audio ?? null, planReason, isWhole }
}

/**
 * Prepares a pass that makes all renditions, also what the first pass has made: players keep that, and in the end the
 * store holds the files of one process, which are verified together.
 */
export async function takeOver(
  { folder, publisher, ladder, source }: LadderRun,
  weight: number,
  { withAudio = true } = {},
): Promise<PassPlan> {
  // The publisher would take the playlists that the first pass left for those of the new one.
  await emptyFolder(folder)
  publisher.again()
  failpoint('job.ran-ahead')
  return planTakeover(ladder, { hasAudio: withAudio && source.audio !== null }, weight)
}

export const isWhole = ({ damaged, endedEarly }: Complaints) => damaged === 0 && !endedEarly

/** That of all renditions; those beside a copied one are cut where it is. */
export function timelineFor({ ladder, segmentSeconds, copied }: LadderRun): Timeline {
  const timeline = timelineOf(ladder, segmentSeconds)
  return typeof copied === 'string' ? timeline : { ...timeline, starts: copied.starts }
}

export interface MadePass {
  videos: MadeVideo[]
  audio: VerifiedStream | null
  isWhole: boolean
}

export interface PassWatch {
  onProgress: (fraction: number) => void
  watched: FirstPass | undefined
  /** The process beside it makes the sound. */
  hasSoundBeside?: boolean
  /** For more than the pass needs itself. */
  reader?: SegmentReader
  isEnough?: () => boolean | Promise<boolean>
}

/** For a pass that no player follows: each look reads the playlist of each stream. */
const CALM_LOOK_MS = 1000

export const earlyMasterOf = (run: LadderRun, plan: PassPlan, reader: SegmentReader, onPlayable: () => void) =>
  earlyMasterPublisher(plan, {
    ...run,
    reader,
    targetSeconds: typeof run.copied === 'string' ? run.segmentSeconds : run.copied.targetSeconds,
    onPlayable,
  })

/** Verifies the sound that a process of its own has made, and completes its list. */
export async function endSound({ folder, source, publisher }: LadderRun): Promise<VerifiedStream> {
  const audio = await verifyAudio(folder, AUDIO_NAME, presentationSeconds(source))
  await publisher.publishRest([AUDIO_NAME])
  return audio
}

/** Undefined when the pass was stopped, because it ran ahead far enough. */
export async function encodeAndVerify(
  run: LadderRun,
  plan: PassPlan,
  { onProgress, watched, hasSoundBeside = false, ...watch }: PassWatch,
): Promise<MadePass | undefined> {
  const { source, publisher, folder, signal, cores, preset, accelerator } = run
  const timeline = timelineFor(run)
  const { renditions } = plan
  const withAudio = plan.withAudio && !hasSoundBeside
  const pass = { source, renditions, withAudio, timeline, accelerator, cores, preset }
  const reader = watch.reader ?? openSegmentReader(folder, signal)
  const early = earlyMasterOf(run, plan, reader, () => {
    watched?.playable()
    run.onPlayable()
  })
  // Players have the smallest rendition while it is made.
  const isFollowed = renditions.some(({ name }) => name === run.ladder[0]?.name)
  const report = await runEncodePass({
    ...{ ...run, pass, onPublished: early, isEnough: watched?.isEnough ?? watch.isEnough },
    ...(!isFollowed && { lookMs: () => CALM_LOOK_MS }),
    inspect: async (name, uri) => name === AUDIO_NAME || reader.read(uri),
    onProgress: (fraction, frames) => {
      watched?.progressed(frames)
      onProgress(fraction)
    },
  })
  if (report.stopped) return undefined
  if (report.frames === 0) throw badInput('CorruptInput', 'The video has no frames that can be decoded')

  const layoutOf = (rendition: Rendition) => (frames: number) => segmentLayout(timeline, rendition.frameRate, frames)
  const videos = []
  for (const rendition of renditions) {
    const made = await verifyVideo(folder, rendition, layoutOf(rendition), reader.readAll).catch((error: unknown) => {
      // Beside a copy, the stream that is copied may be cut elsewhere: everything is then encoded.
      throw timeline.starts ? error : explainRefusal(error, pass)
    })
    refuseBroken(source, report, { rendition, frames: made.frames })
    videos.push({ rendition, ...made })
  }
  // Players of the copy would meet what this decoder has concealed.
  if (timeline.starts && !isWhole(report))
    throw new TransientError(EXIT.verificationFailed, 'VerificationFailed', 'The copied stream is damaged')
  const audio = withAudio ? await verifyAudio(folder, AUDIO_NAME, presentationSeconds(source)) : null
  await publisher.publishRest(streamNames(pass))
  await early()
  return { videos, audio, isWhole: isWhole(report) }
}
