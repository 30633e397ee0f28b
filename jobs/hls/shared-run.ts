import { EXIT } from '../../lib/contract/job-result.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Complaints } from '../ffmpeg/ffmpeg.ts'
import { PermanentError, TransientError } from '../runtime/failure.ts'
import { ToolCrashed } from '../runtime/tool-process.ts'
import type { Cut } from './chunks/cut.ts'
import { type Lead, leadAlone, type Making, openLead } from './chunks/lead.ts'
import type { Sharing } from './chunks/sharing.ts'
import { refuseBroken } from './integrity.ts'
import { formatMediaPlaylist } from './media-playlist.ts'
import {
  type EncodedLadder,
  encodeAndVerify,
  endSound,
  isWhole,
  type LadderRun,
  ladderOf,
  type MadePass,
  type MadeVideo,
  takeOver,
  timelineFor,
} from './one-pass.ts'
import { type PassPlan, planReasonOf } from './pass-plan.ts'
import { PLAYLIST_TYPE } from './publisher.ts'
import { explainRefusal, runEncodePass } from './run-encode-pass.ts'
import { openSegmentReader, type VerifiedStream, verifyBeginning } from './verify.ts'

export interface Shared {
  sharing: Sharing
  cut: Cut
  notCopied: string | undefined
}

/** Where the first pass may end before the video does, another process makes all of the sound. */
export async function runShared(run: LadderRun, plans: [PassPlan, PassPlan], shared: Shared): Promise<EncodedLadder> {
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
    // That of the sound, where it was the first to fail: what it stopped knows only that it was stopped.
    throw stop.signal.reason
  }
}

interface Sound {
  report: Complaints
  /** Undefined where it is not as long as the video: whether that is the fault of the source, the video tells. */
  audio: VerifiedStream | undefined
}

async function makeSound(run: LadderRun): Promise<Sound> {
  const { source, cores, preset } = run
  const common = { source, timeline: timelineFor(run), accelerator: 'cpu' as const, cores, preset }
  const pass = { ...common, copiesVideo: true, renditions: [], withAudio: true }
  const report = await runEncodePass({ ...run, pass, onProgress: () => {} })
  // At once: players give up a list that stays as it is.
  const audio = await endSound(run).catch((error: unknown) => {
    if (error instanceof TransientError && error.code === EXIT.verificationFailed) return undefined
    throw error
  })
  return { audio, report }
}

interface SharedWithSound extends Shared {
  /** Set where the first pass does not make it. */
  sound?: Promise<Sound> | undefined
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
  // What is broken in the source is for a first pass to find that reads all of it.
  let isSoundWhole = sound === undefined
  sound?.then(
    ({ audio, report }) => {
      isSoundWhole = audio !== undefined && isWhole(report)
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
  let heard: MadePass | undefined
  try {
    const watch = { onProgress: progressOver(first.weight), hasSoundBeside: sound !== undefined }
    ahead = await makeFirst(run, first, { ...watch, lead: () => (isSoundWhole ? opened : undefined) })
    // Of a source that is refused, nothing more is made.
    if (ahead.made) heard = await soundOf(run, ahead.made, sound)
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
  if (pass) return ladderOf(run, [ahead.made, pass, heard ?? (await soundOf(run, pass, sound))], planReason)
  const rest = await makeRest(run, plans, { ahead, sound, onProgress: progressOver(1 - reached), notCopied })
  return ladderOf(run, [ahead.made, rest.pass, heard ?? (await soundOf(run, rest.pass, sound))], rest.planReason)
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
  const isEnough = async () => {
    if (!(await lead()?.isEnough(published().length))) return false
    // Where another attempt has converted it, the list that this one has replaced has to come to its end again.
    return (
      (await run.isNotConverted?.().then(
        () => true,
        () => false,
      )) ?? true
    )
  }
  const made = await encodeAndVerify(run, first, { ...watch, reader, isEnough, watched: undefined })
  if (made) return { made }
  if (!rendition) return {}
  const segments = published().slice(0, lead()?.mostBegun)
  const begun = await verifyBeginning(rendition, segments, timelineFor(run), reader.readAll).catch((error: unknown) => {
    throw explainRefusal(error, run)
  })
  return { begun: { rendition, ...begun } }
}

async function soundOf(
  run: LadderRun,
  { videos: [video] }: MadePass,
  sound: SharedWithSound['sound'],
): Promise<MadePass | undefined> {
  if (!sound) return undefined
  const { audio, report } = await sound
  if (video) refuseBroken(run.source, report, video)
  return { videos: [], audio: audio ?? (await endSound(run)), isWhole: isWhole(report) }
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

/** Undefined where what the pods have made does not fit. Whether that is the fault of the source, a pass that reads all of it tells. */
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
