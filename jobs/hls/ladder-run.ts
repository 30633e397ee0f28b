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
import type { Cut } from './chunks/enough.ts'
import { cutOf, type Lead, leadAlone, type Making, openLead, type Sharing } from './chunks/lead.ts'
import { type CopiedTop, copiedLayout } from './copied-top.ts'
import { earlyMasterPublisher } from './early-master.ts'
import { AUDIO_NAME, type Preset, streamNames } from './encode-pass.ts'
import { canBeWatched, type FirstPass, watchFirstPass } from './first-pass.ts'
import { refuseBroken } from './integrity.ts'
import type { Rendition } from './ladder.ts'
import { formatMediaPlaylist } from './media-playlist.ts'
import { type PassPlan, planCopiedPasses, planPasses, planReasonOf, planTakeover } from './pass-plan.ts'
import { PLAYLIST_TYPE, type Publisher } from './publisher.ts'
import { LOOK_MS, runEncodePass } from './run-encode-pass.ts'
import { segmentLayout, type Timeline, timelineOf } from './timeline.ts'
import {
  openSegmentReader,
  type SegmentReader,
  type VerifiedStream,
  type VerifiedVideo,
  verifyAudio,
  verifyBeginning,
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
  const { sharing } = run
  if (sharing && sharing.pods > 1 && first && !first.copied && second) {
    const cut = cutOf({ ...run, sharing })
    if (cut) return runShared(run, [first, second], { sharing, cut, notCopied })
  }
  if (sharing && !first?.copied) await leadAlone(sharing, run.signal)
  return runAlone(run, plans, notCopied)
}

interface Shared {
  sharing: Sharing
  cut: Cut
  notCopied: string | undefined
}

/** Where the first pass may end before the video does, the sound has a process of its own: there is one of it in any case. */
async function runShared(run: LadderRun, plans: [PassPlan, PassPlan], shared: Shared): Promise<EncodedLadder> {
  const { chunks, fullFrom } = shared.cut
  if (fullFrom === chunks.length || !plans[0].withAudio) return runWithLead(run, plans, shared)
  const stop = new AbortController()
  const beside = { ...run, signal: AbortSignal.any([run.signal, stop.signal]) }
  const sound = makeSound(beside).catch((error: unknown) => {
    stop.abort(error)
    throw error
  })
  sound.catch(() => {}) // awaited behind the first pass
  try {
    return await runWithLead(beside, plans, { ...shared, sound })
  } catch (error) {
    stop.abort(error)
    await sound.catch(() => {})
    throw error
  }
}

async function makeSound(run: LadderRun): Promise<{ audio: VerifiedStream; report: Complaints }> {
  const { source, cores, preset, folder, publisher } = run
  const common = { source, timeline: timelineFor(run), accelerator: 'cpu' as const, cores, preset }
  const pass = { ...common, copiesVideo: true, renditions: [], withAudio: true }
  const report = await runEncodePass({ ...run, pass, onProgress: () => {} })
  const audio = await verifyAudio(folder, AUDIO_NAME, presentationSeconds(source))
  await publisher.publishRest([AUDIO_NAME])
  return { audio, report }
}

interface SharedWithSound extends Shared {
  /** Set where the first pass does not make it. */
  sound?: ReturnType<typeof makeSound> | undefined
}

/**
 * Other pods begin with their chunks while this one makes the first pass. Where they cannot help, this one makes all that is
 * left.
 */
async function runWithLead(run: LadderRun, plans: [PassPlan, PassPlan], shared: SharedWithSound) {
  const [first, second] = plans
  const { notCopied, sound } = shared
  const stop = new AbortController()
  const leading = openLead({ ...run, ...shared, signal: AbortSignal.any([run.signal, stop.signal]) }, shared.cut)
  let opened: Lead | undefined
  leading.then(
    (lead) => {
      opened = lead
    },
    () => {}, // awaited behind the first pass
  )
  run.onPlanned(planReasonOf(plans, notCopied))
  let reached = 0
  const progressOver =
    (weight: number, from = reached) =>
    (fraction: number) => {
      reached = Math.max(reached, from + fraction * weight)
      run.onProgress(reached)
    }
  let ahead: Ahead
  try {
    const watch = { onProgress: progressOver(first.weight), hasSoundBeside: sound !== undefined }
    ahead = await makeFirst(run, first, { ...watch, lead: () => opened })
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
  const shown = lead && { chunks: lead.chunks, sharedFrom: ahead.begun && secondsOf(ahead.begun.segments) }
  const planReason = planReasonOf(plans, notCopied, shown)
  run.onPlanned(planReason)
  const onProgress = progressOver(second.weight, first.weight)
  const pass = lead && (await makeSharedIfPossible(run, lead, { begun: ahead.begun, onProgress }))
  if (pass) return ladderOf([ahead.made, pass, await soundOf(run, pass, sound)], planReason)
  const rest = await makeRest(run, plans, { ahead, sound, onProgress: progressOver(1 - reached), notCopied })
  return ladderOf([ahead.made, rest.pass, await soundOf(run, rest.pass, sound)], rest.planReason)
}

/** All of the smallest rendition, or what a first pass has made of it that was stopped. */
interface Ahead {
  made?: MadePass
  begun?: MadeVideo
}

interface FirstWatch {
  onProgress: (fraction: number) => void
  hasSoundBeside: boolean
  lead: () => Lead | undefined
}

async function makeFirst(run: LadderRun, first: PassPlan, { lead, ...watch }: FirstWatch): Promise<Ahead> {
  const reader = openSegmentReader(run.folder, run.signal)
  const [rendition] = first.renditions
  const published = () => (rendition ? run.publisher.published(rendition.name) : [])
  const isEnough = async () => (await lead()?.isEnough(published().length)) ?? false
  const made = await encodeAndVerify(run, first, { ...watch, reader, isEnough, watched: undefined })
  if (made) return { made }
  if (!rendition) return {}
  const segments = published().slice(0, lead()?.mostBegun)
  const begun = await verifyBeginning(rendition, segments, timelineFor(run), reader.readAll)
  return { begun: { rendition, ...begun } }
}

async function soundOf(
  { source }: LadderRun,
  { videos: [video] }: MadePass,
  sound: SharedWithSound['sound'],
): Promise<MadePass | undefined> {
  if (!sound) return undefined
  const { audio, report } = await sound
  if (video) refuseBroken(source, report, video)
  return { videos: [], audio, isWhole: isWhole(report) }
}

interface Rest extends Pick<SharedWithSound, 'sound' | 'notCopied'> {
  ahead: Ahead
  onProgress: (fraction: number) => void
}

/** In one pass, without any other pod: the larger renditions, or all where the smallest was not made to its end. */
async function makeRest(run: LadderRun, plans: [PassPlan, PassPlan], { ahead, sound, onProgress, notCopied }: Rest) {
  await run.isNotConverted?.()
  if (run.sharing) await leadAlone(run.sharing, run.signal)
  const ranAhead = ahead.begun && secondsOf(ahead.begun.segments)
  const planReason = planReasonOf(plans, notCopied, { ranAhead })
  run.onPlanned(planReason)
  // The folder is emptied, from which it is published.
  if (ahead.begun) await sound
  const plan = ahead.begun ? await takeOver(run, plans[1].weight, { withAudio: !sound }) : plans[1]
  const pass = await encodeAndVerify(run, plan, { onProgress, watched: undefined })
  if (!pass) throw new Error('a pass that nothing stops was stopped')
  return { pass, planReason }
}

const secondsOf = (segments: readonly { seconds: number }[]) => segments.reduce((sum, s) => sum + s.seconds, 0)

/** Undefined where what the pods have made does not fit: that says nothing about the source, which the first pass has read. */
async function makeSharedIfPossible(...[run, lead, making]: Parameters<typeof makeShared>) {
  try {
    return await makeShared(run, lead, making)
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
async function takeOver(
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

/** The same as `encodeAndVerify`, of chunks that several pods have made and verified. */
async function makeShared(run: LadderRun, lead: Lead, making: Pick<Making, 'begun' | 'onProgress'>): Promise<MadePass> {
  const { publisher, segmentSeconds } = run
  const [smallest] = run.ladder
  const onJoined = async (segments: VerifiedStream['segments']) => {
    await run.isNotConverted?.()
    if (smallest) await publisher.list(smallest.name, segments)
    failpoint('job.joined')
  }
  const { videos, complaints } = await lead.make({ ...making, onJoined })
  for (const { rendition, frames } of videos) refuseBroken(run.source, complaints, { rendition, frames })
  await run.isNotConverted?.()
  for (const { rendition, segments } of videos) {
    const text = formatMediaPlaylist({ segments, ended: true }, segmentSeconds)
    await publisher.put(`${rendition.name}.m3u8`, text, PLAYLIST_TYPE)
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
  /** The process beside it makes the sound. */
  hasSoundBeside?: boolean
  /** For more than the pass needs itself. */
  reader?: SegmentReader
  isEnough?: () => boolean | Promise<boolean>
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

/** Often enough that a copy, which takes moments, does not wait for the sound beside it. */
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
  const early = earlyMasterOf(run, plan, reader, run.onPlayable)
  const stop = new AbortController()
  const signal = AbortSignal.any([run.signal, stop.signal])
  let isVerified = false
  const encoding = plan.withAudio
    ? runEncodePass({
        ...{ ...run, signal, pass: { ...common, renditions: [], withAudio: true }, onProgress: () => {} },
        ...{ isSilent: () => !isVerified, onPublished: early, lookMs: () => (isVerified ? LOOK_MS : COPY_LOOK_MS) },
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
    const sound = await encoding
    if (sound) refuseBroken(source, sound, { rendition, frames: made.frames })
    const audio = sound ? await verifyAudio(folder, AUDIO_NAME, presentationSeconds(source)) : null
    if (sound) await publisher.publishRest([AUDIO_NAME])
    await early()
    return { videos: [{ rendition, ...made }], audio, isWhole: isWhole(report) && (!sound || isWhole(sound)) }
  } catch (error) {
    stop.abort(error)
    await encoding?.catch(() => {})
    throw error
  }
}

/** Undefined when the pass was stopped, because it ran ahead far enough. */
async function encodeAndVerify(
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
    const made = await verifyVideo(folder, rendition, layoutOf(rendition), reader.readAll)
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
