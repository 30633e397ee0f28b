import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { EXIT } from '../../lib/contract/job-result.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { Accelerator } from '../ffmpeg/accelerator.ts'
import type { ProbedSource } from '../ffmpeg/probe.ts'
import { presentationSeconds } from '../ffmpeg/source.ts'
import { badInput, PermanentError, TransientError } from '../runtime/failure.ts'
import { type Lead, openLead, type Sharing } from './chunks/lead.ts'
import { type CopiedTop, copiedLayout } from './copied-top.ts'
import { AUDIO_NAME, type Preset, streamNames } from './encode-pass.ts'
import { refuseBroken } from './integrity.ts'
import type { Rendition } from './ladder.ts'
import { formatMediaPlaylist } from './media-playlist.ts'
import { type PassPlan, planCopiedPasses, planPasses, planReasonOf } from './pass-plan.ts'
import { PLAYLIST_TYPE, type Publisher } from './publisher.ts'
import { earlyMasterEntry, masterPlaylistText } from './rendition-entries.ts'
import { runEncodePass } from './run-encode-pass.ts'
import { segmentLayout, type Timeline, timelineOf } from './timeline.ts'
import {
  readStart,
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
  accelerator: Accelerator['kind']
  cores: number
  preset: Preset
  signal: AbortSignal
  log: Log
  onPlanned: (reason: string) => void
  onProgress: (fraction: number) => void
  onPlayable: () => void
}

type MadeVideo = VerifiedVideo & { rendition: Rendition }

export interface EncodedLadder {
  /** Smallest first. */
  videos: MadeVideo[]
  audio: VerifiedStream | null
  /** How they were made, and why. */
  planReason: string
}

/**
 * Encodes, verifies and publishes all renditions. The master playlist lists only the first of them so far. Throws a
 * PermanentError when the source turns out to be broken, which the first pass already detects.
 */
export async function runLadder(run: LadderRun): Promise<EncodedLadder> {
  const source = { ...run.source, seconds: presentationSeconds(run.source), hasAudio: run.source.audio !== null }
  if (typeof run.copied !== 'string') {
    const made = await runCopied(run, planCopiedPasses(run.copied, run.ladder, source))
    if (made) return made
  }
  const notCopied = typeof run.copied === 'string' ? run.copied : 'it is not what its packets promised'
  return runPlans({ ...run, copied: notCopied }, planPasses(run.ladder, source), notCopied)
}

/** Undefined when the copy is not what its packets promised: the encoder then makes all renditions. */
async function runCopied(run: LadderRun, plans: readonly PassPlan[]): Promise<EncodedLadder | undefined> {
  try {
    return await runPlans(run, plans)
  } catch (error) {
    const isLate = error instanceof TransientError && error.code === EXIT.verificationFailed
    if (run.signal.aborted || !(isLate || error instanceof CopyRefused)) throw error
    run.log.warn({ err: error }, 'the stream of the source does not serve as a rendition; encoding it')
    run.publisher.forget()
    await emptyFolder(run.folder)
    return undefined
  }
}

/** The stream cannot be copied: whether anything can be made of it is for the decoder to judge. */
class CopyRefused extends Error {}

/** What the store, the disk or the pod's memory refuses says nothing about the stream. */
const OF_COPY = ['VerificationFailed', 'EncodeFailed', 'ToolCrashed']
const isOfCopy = (error: unknown) =>
  error instanceof PermanentError || (error instanceof TransientError && OF_COPY.includes(error.reason))

async function copyAndVerify(...given: Parameters<typeof encodeAndVerify>): ReturnType<typeof encodeAndVerify> {
  try {
    return await encodeAndVerify(...given)
  } catch (error) {
    throw isOfCopy(error) ? new CopyRefused('the stream cannot be copied', { cause: error }) : error
  }
}

async function emptyFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder)
}

async function runPlans(run: LadderRun, plans: readonly PassPlan[], notCopied?: string): Promise<EncodedLadder> {
  let planReason = planReasonOf(plans, { notCopied })
  run.onPlanned(planReason)
  const videos: MadeVideo[] = []
  let audio: VerifiedStream | null = null
  let done = 0
  // Other pods begin while this one makes what plays early.
  const leading = leadOf(run, plans).then((lead) => {
    if (!lead) return undefined
    planReason = planReasonOf(plans, { notCopied, chunks: lead.chunks })
    run.onPlanned(planReason)
    return lead
  })
  leading.catch(() => {}) // awaited below, unless an earlier pass fails first
  for (const [i, plan] of plans.entries()) {
    const lead = i > 0 ? await leading : undefined
    const onProgress = (fraction: number) => run.onProgress(done + fraction * plan.weight)
    const make = plan.copied ? copyAndVerify : encodeAndVerify
    const made = lead ? await makeShared(run, lead, onProgress) : await make(run, plan, onProgress)
    videos.push(...made.videos)
    audio ??= made.audio
    done += plan.weight
  }
  verifySameSpan(videos)
  failpoint('job.encoded')
  return { videos: videos.sort((a, b) => a.rendition.height - b.rendition.height), audio, planReason }
}

/** Undefined where this pod makes the last pass alone. */
async function leadOf(run: LadderRun, plans: readonly PassPlan[]): Promise<Lead | undefined> {
  const [first, shared] = plans
  const { sharing } = run
  if (!sharing || sharing.pods < 2 || !first || !shared || first.copied) return undefined
  return openLead({ ...run, sharing, renditions: shared.renditions })
}

/** The same as `encodeAndVerify`, of chunks that several pods have made and verified. */
async function makeShared(run: LadderRun, lead: Lead, onProgress: (fraction: number) => void) {
  const { videos, complaints } = await lead.make(onProgress)
  for (const { rendition, frames } of videos) refuseBroken(run.source, complaints, { rendition, frames })
  for (const { rendition, segments } of videos) {
    const text = formatMediaPlaylist({ segments, ended: true }, run.segmentSeconds)
    await run.publisher.put(`${rendition.name}.m3u8`, text, PLAYLIST_TYPE)
  }
  return { videos, audio: null }
}

/** That of all renditions; those beside a copied one are cut where it is. */
function timelineFor({ ladder, segmentSeconds, copied }: LadderRun): Timeline {
  const timeline = timelineOf(ladder, segmentSeconds)
  return typeof copied === 'string' ? timeline : { ...timeline, starts: copied.starts }
}

async function encodeAndVerify(run: LadderRun, plan: PassPlan, onProgress: (fraction: number) => void) {
  const { source, publisher, folder, signal, cores, preset, accelerator } = run
  const timeline = timelineFor(run)
  const { renditions, withAudio, copied } = plan
  const pass = {
    source,
    renditions,
    withAudio,
    timeline,
    accelerator: copied ? ('cpu' as const) : accelerator,
    cores,
    preset,
    copiesVideo: copied !== undefined,
  }
  const early = earlyMasterPublisher(run, plan)
  // A copy takes moments, and nothing of one that proves wrong may reach players.
  const isSilent = copied !== undefined
  const report = await runEncodePass({ ...run, pass, isSilent, onProgress, onPublished: early })
  if (report.frames === 0) throw badInput('CorruptInput', 'The video has no frames that can be decoded')

  const layoutOf = (rendition: Rendition) => (frames: number) =>
    copied ? copiedLayout(copied, timeline) : segmentLayout(timeline, rendition.frameRate, frames)
  const videos = []
  for (const rendition of renditions) {
    const made = await verifyVideo(folder, rendition, layoutOf(rendition), signal)
    refuseBroken(source, report, { rendition, frames: made.frames })
    videos.push({ rendition, ...made })
  }
  // Players of the copy would meet what this decoder has concealed.
  if (timeline.starts && !copied && (report.damaged > 0 || report.endedEarly))
    throw new TransientError(EXIT.verificationFailed, 'VerificationFailed', 'The copied stream is damaged')
  const audio = withAudio ? await verifyAudio(folder, AUDIO_NAME, presentationSeconds(source)) : null
  await publisher.publishRest(streamNames(pass))
  await early()
  return { videos, audio }
}

/** Publishes a first master playlist once video and audio each have a segment in the store: playback can then start. */
function earlyMasterPublisher(run: LadderRun, plan: PassPlan): () => Promise<void> {
  const [rendition] = plan.renditions
  let isPublished = !plan.publishesEarly
  return async () => {
    if (isPublished || !rendition) return
    const [video, audio] = [run.publisher.published(rendition.name), run.publisher.published(AUDIO_NAME)]
    const first = video[0]
    if (!first || (plan.withAudio && audio.length === 0)) return
    const codec = (await readStart(join(run.folder, first.uri)))?.codec
    if (!codec) return
    const described = earlyMasterEntry(
      { rendition, codec, segments: video },
      plan.withAudio ? audio : null,
      typeof run.copied === 'string' ? run.segmentSeconds : run.copied.targetSeconds,
    )
    await run.publisher.put('master.m3u8', masterPlaylistText([described], plan.withAudio), PLAYLIST_TYPE)
    isPublished = true
    failpoint('job.playable')
    run.onPlayable()
  }
}
