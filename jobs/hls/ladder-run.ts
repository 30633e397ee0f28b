import { mkdir, rm } from 'node:fs/promises'
import { EXIT } from '../../lib/contract/job-result.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { Accelerator } from '../ffmpeg/accelerator.ts'
import type { Complaints } from '../ffmpeg/ffmpeg.ts'
import type { ProbedSource } from '../ffmpeg/probe.ts'
import { presentationSeconds } from '../ffmpeg/source.ts'
import { badInput, PermanentError, TransientError } from '../runtime/failure.ts'
import { ToolCrashed } from '../runtime/tool-process.ts'
import { type Lead, leadAlone, openLead, type Sharing } from './chunks/lead.ts'
import { type CopiedTop, copiedLayout } from './copied-top.ts'
import { earlyMasterPublisher } from './early-master.ts'
import { AUDIO_NAME, type Preset, streamNames } from './encode-pass.ts'
import { canBeWatched, type FirstPass, watchFirstPass } from './first-pass.ts'
import { refuseBroken } from './integrity.ts'
import type { Rendition } from './ladder.ts'
import { formatMediaPlaylist } from './media-playlist.ts'
import { type PassPlan, planCopiedPasses, planPasses, planReasonOf, planTakeover } from './pass-plan.ts'
import { PLAYLIST_TYPE, type Publisher } from './publisher.ts'
import { explainRefusal, LOOK_MS, runEncodePass } from './run-encode-pass.ts'
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

type MadeVideo = VerifiedVideo & { rendition: Rendition }

export interface EncodedLadder {
  /** Smallest first. */
  videos: MadeVideo[]
  audio: VerifiedStream | null
  /** How they were made, and why. */
  planReason: string
  /** The decoder had nothing to complain of. */
  isWhole: boolean
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
    if (error instanceof SoundFailed) throw error.cause
    const isLate = error instanceof TransientError && error.code === EXIT.verificationFailed
    if (run.signal.aborted || !(isLate || error instanceof CopyRefused)) throw error
    run.log.warn({ err: error }, 'the stream of the source does not serve as a rendition; encoding it')
    run.publisher.again()
    await emptyFolder(run.folder)
    return undefined
  }
}

/** The stream cannot be copied: whether anything can be made of it is for the decoder to judge. */
class CopyRefused extends Error {}

/**
 * The sound beside a copy: its fault says nothing about the stream. Players have the list of the copy by then, which the next
 * attempt finds as it is.
 */
class SoundFailed extends Error {}

/** What the store, the disk or the pod's memory refuses says nothing about the stream. */
const OF_COPY = ['VerificationFailed', 'EncodeFailed']
const isOfCopy = (error: unknown) =>
  error instanceof PermanentError ||
  error instanceof ToolCrashed ||
  (error instanceof TransientError && OF_COPY.includes(error.reason))

async function copyAndVerify(...given: Parameters<typeof copyTop>): Promise<MadePass> {
  try {
    const made = await copyTop(...given)
    const [{ sharing, signal }] = given
    // Only now: where the copy is refused, there is something to share.
    if (sharing) await leadAlone(sharing, signal)
    return made
  } catch (error) {
    throw isOfCopy(error) ? new CopyRefused('the stream cannot be copied', { cause: error }) : error
  }
}

export async function emptyFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder)
}

async function runPlans(run: LadderRun, plans: readonly PassPlan[], notCopied?: string): Promise<EncodedLadder> {
  const [first, second] = plans
  // What is left beside a copy, and what one pass makes, costs too little to be shared.
  const canBeShared = (run.sharing?.pods ?? 1) > 1 && first && !first.copied && second
  if (canBeShared) return runShared(run, [first, second], notCopied)
  if (run.sharing && !first?.copied) await leadAlone(run.sharing, run.signal)
  return runAlone(run, plans, notCopied)
}

/** Other pods begin with the second pass while this one makes the first. Where they cannot help, this one makes both. */
async function runShared(run: LadderRun, plans: [PassPlan, PassPlan], notCopied?: string): Promise<EncodedLadder> {
  const [first, second] = plans
  const stop = new AbortController()
  const leading = leadOf({ ...run, signal: AbortSignal.any([run.signal, stop.signal]) }, second)
  leading.catch(() => {}) // awaited behind the first pass
  run.onPlanned(planReasonOf(plans, notCopied))
  const onFirst = (fraction: number) => run.onProgress(fraction * first.weight)
  let early: MadePass | undefined
  try {
    early = await encodeAndVerify(run, first, { onProgress: onFirst, watched: undefined })
  } catch (error) {
    // A plan that is written later would take the place of the next one.
    stop.abort(error)
    await leading.catch(() => {})
    throw error
  }
  const lead = await leading.catch((error: unknown) => {
    run.signal.throwIfAborted()
    run.log.warn({ err: error }, 'cannot share; encoding in one pass')
    return undefined
  })
  const planReason = planReasonOf(plans, notCopied, lead && { chunks: lead.chunks })
  run.onPlanned(planReason)
  let reached = first.weight
  const onProgress = (fraction: number) => {
    reached = Math.max(reached, first.weight + fraction * second.weight)
    run.onProgress(reached)
  }
  const shared = lead && (await makeSharedIfPossible(run, lead, onProgress))
  if (shared) return ladderOf([early, shared], planReason)
  await run.isNotConverted?.()
  if (run.sharing) await leadAlone(run.sharing, run.signal)
  const alone = planReasonOf(plans, notCopied)
  run.onPlanned(alone)
  return ladderOf([early, await encodeAndVerify(run, second, { onProgress, watched: undefined })], alone)
}

/** Undefined where what the pods have made does not fit: that says nothing about the source, which the first pass has read. */
async function makeSharedIfPossible(...[run, lead, onProgress]: Parameters<typeof makeShared>) {
  try {
    return await makeShared(run, lead, onProgress)
  } catch (error) {
    run.signal.throwIfAborted()
    if (!isOfChunks(error)) throw error
    run.log.warn({ err: error }, 'the chunks do not serve; encoding in one pass')
    return undefined
  }
}

/** What the store or the disk refuses says nothing about the chunks. */
const OF_CHUNKS = ['VerificationFailed', 'EncodeFailed', 'GpuFailed', 'Timeout']
const isOfChunks = (error: unknown): boolean =>
  error instanceof PermanentError ||
  error instanceof ToolCrashed ||
  (error instanceof TransientError && OF_CHUNKS.includes(error.reason))

async function runAlone(run: LadderRun, plans: readonly PassPlan[], notCopied?: string): Promise<EncodedLadder> {
  const [first] = plans
  const watched = first && canBeWatched(run, plans) ? watchFirstPass(run, first, () => performance.now()) : undefined
  const reasonOf = (isOvertaken: boolean) => {
    const reason = planReasonOf(plans, notCopied, watched?.shown(isOvertaken))
    run.onPlanned(reason)
    return reason
  }
  let planReason = reasonOf(false)
  const made: MadePass[] = []
  const left = [...plans]
  let done = 0
  for (let plan = left.shift(); plan; plan = left.shift()) {
    const [from, { weight }] = [done, plan]
    const onProgress = (fraction: number) => {
      done = Math.max(done, from + fraction * weight)
      run.onProgress(done)
    }
    const watch = { onProgress, watched: plan === first ? watched : undefined }
    const { copied } = plan
    const result = await (copied ? copyAndVerify(run, plan, copied, watch) : encodeAndVerify(run, plan, watch))
    if (result) {
      made.push(result)
      done = from + weight
    } else left.splice(0, left.length, await takeOver(run, 1 - done))
    if (watched && plan === first) planReason = reasonOf(result === undefined)
  }
  return ladderOf(made, planReason)
}

function ladderOf(passes: readonly (MadePass | undefined)[], planReason: string): EncodedLadder {
  const made = passes.filter((pass) => pass !== undefined)
  const videos = made.flatMap((pass) => pass.videos)
  verifySameSpan(videos)
  failpoint('job.encoded')
  videos.sort((a, b) => a.rendition.height - b.rendition.height)
  const isWhole = made.every((pass) => pass.isWhole)
  return { videos, audio: made.find((pass) => pass.audio)?.audio ?? null, planReason, isWhole }
}

/**
 * Prepares a pass that makes all renditions, also what the first pass has made: players keep that, and in the end the
 * store holds the files of one process, which are verified together.
 */
async function takeOver({ folder, publisher, ladder, source }: LadderRun, weight: number): Promise<PassPlan> {
  // The publisher would take the playlists that the first pass left for those of the new one.
  await emptyFolder(folder)
  publisher.again()
  failpoint('job.ran-ahead')
  return planTakeover(ladder, { hasAudio: source.audio !== null }, weight)
}

/** Undefined where this pod makes the pass alone. */
const leadOf = async (run: LadderRun, { renditions }: PassPlan): Promise<Lead | undefined> =>
  run.sharing && openLead({ ...run, sharing: run.sharing, renditions })

/** The same as `encodeAndVerify`, of chunks that several pods have made and verified. */
async function makeShared(run: LadderRun, lead: Lead, onProgress: (fraction: number) => void): Promise<MadePass> {
  const { videos, complaints } = await lead.make(onProgress)
  for (const { rendition, frames } of videos) refuseBroken(run.source, complaints, { rendition, frames })
  await run.isNotConverted?.()
  for (const { rendition, segments } of videos) {
    const text = formatMediaPlaylist({ segments, ended: true }, run.segmentSeconds)
    await run.publisher.put(`${rendition.name}.m3u8`, text, PLAYLIST_TYPE)
  }
  return { videos, audio: null, isWhole: isWhole(complaints) }
}

const isWhole = ({ damaged, endedEarly }: Complaints) => damaged === 0 && !endedEarly

/** That of all renditions; those beside a copied one are cut where it is. */
function timelineFor({ ladder, segmentSeconds, copied }: LadderRun): Timeline {
  const timeline = timelineOf(ladder, segmentSeconds)
  return typeof copied === 'string' ? timeline : { ...timeline, starts: copied.starts }
}

interface MadePass {
  videos: MadeVideo[]
  audio: VerifiedStream | null
  isWhole: boolean
}

interface PassWatch {
  onProgress: (fraction: number) => void
  watched: FirstPass | undefined
}

/** For a pass that no player follows: each look reads the playlist of each stream. */
const CALM_LOOK_MS = 1000

const earlyMasterOf = (run: LadderRun, plan: PassPlan, reader: SegmentReader, onPlayable: () => void) =>
  earlyMasterPublisher(plan, {
    ...run,
    reader,
    targetSeconds: typeof run.copied === 'string' ? run.segmentSeconds : run.copied.targetSeconds,
    onPlayable,
  })

/** Until it plays: often enough that a copy, which takes moments, does not wait for the sound beside it. */
const COPY_LOOK_MS = 50

/**
 * Copies the top rendition and encodes the sound in two processes at once: copying takes a fraction of the time. Nothing
 * is published before the copy is verified.
 */
async function copyTop(
  run: LadderRun,
  plan: PassPlan,
  copied: CopiedTop,
  { onProgress }: PassWatch,
): Promise<MadePass> {
  const { source, publisher, folder, cores, preset } = run
  const timeline = timelineFor(run)
  const common = { source, timeline, accelerator: 'cpu' as const, cores, preset, copiesVideo: true }
  const reader = openSegmentReader(folder, run.signal)
  let [isVerified, isPlayable] = [false, false]
  const early = earlyMasterOf(run, plan, reader, () => {
    isPlayable = true
    run.onPlayable()
  })
  const stop = new AbortController()
  const signal = AbortSignal.any([run.signal, stop.signal])
  const encoding = plan.withAudio
    ? runEncodePass({
        ...{ ...run, signal, pass: { ...common, renditions: [], withAudio: true }, onProgress: () => {} },
        ...{ isSilent: () => !isVerified, onPublished: early, lookMs: () => (isPlayable ? LOOK_MS : COPY_LOOK_MS) },
      })
    : undefined
  encoding?.catch(() => {}) // awaited behind the copy
  try {
    const pass = { ...common, renditions: plan.renditions, withAudio: false }
    const report = await runEncodePass({ ...run, signal, pass, isSilent: () => true, onProgress })
    if (report.frames === 0) throw badInput('CorruptInput', 'The video has no frames that can be decoded')
    const { rendition } = copied
    const made = await verifyVideo(folder, rendition, () => copiedLayout(copied, timeline), reader.readAll)
    refuseBroken(source, report, { rendition, frames: made.frames })
    await publisher.publishRest([rendition.name])
    isVerified = true
    const sound = encoding && (await endSound(run, encoding, { rendition, frames: made.frames }))
    await early()
    const videos = [{ rendition, ...made }]
    return { videos, audio: sound?.audio ?? null, isWhole: isWhole(report) && sound?.isWhole !== false }
  } catch (error) {
    stop.abort(error)
    await encoding?.catch(() => {})
    throw error
  }
}

/** Verifies the sound beside a copy and completes its list. Throws SoundFailed. */
async function endSound(
  { source, folder, publisher }: LadderRun,
  encoding: Promise<Complaints>,
  made: { rendition: Rendition; frames: number },
): Promise<{ audio: VerifiedStream; isWhole: boolean }> {
  try {
    const complaints = await encoding
    refuseBroken(source, complaints, made)
    const audio = await verifyAudio(folder, AUDIO_NAME, presentationSeconds(source))
    await publisher.publishRest([AUDIO_NAME])
    return { audio, isWhole: isWhole(complaints) }
  } catch (error) {
    throw new SoundFailed('the sound cannot be made', { cause: error })
  }
}

/** Undefined when the pass was stopped, because it ran ahead far enough. */
async function encodeAndVerify(
  run: LadderRun,
  plan: PassPlan,
  { onProgress, watched }: PassWatch,
): Promise<MadePass | undefined> {
  const { source, publisher, folder, signal, cores, preset, accelerator } = run
  const timeline = timelineFor(run)
  const { renditions, withAudio } = plan
  const pass = { source, renditions, withAudio, timeline, accelerator, cores, preset }
  const reader = openSegmentReader(folder, signal)
  const early = earlyMasterOf(run, plan, reader, () => {
    watched?.playable()
    run.onPlayable()
  })
  // Players have the smallest rendition while it is made.
  const isFollowed = renditions.some(({ name }) => name === run.ladder[0]?.name)
  const report = await runEncodePass({
    ...{ ...run, pass, onPublished: early, isEnough: watched?.isEnough },
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
      throw explainRefusal(error, pass)
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
