import { EXIT } from '../../lib/contract/job-result.ts'
import type { Complaints } from '../ffmpeg/ffmpeg.ts'
import { presentationSeconds } from '../ffmpeg/source.ts'
import { badInput, PermanentError, TransientError } from '../runtime/failure.ts'
import { ToolCrashed } from '../runtime/tool-process.ts'
import { cutOf } from './chunks/cut.ts'
import { leadAlone } from './chunks/lead.ts'
import { type CopiedTop, copiedLayout } from './copied-top.ts'
import { canBeWatched, watchFirstPass } from './first-pass.ts'
import { refuseBroken } from './integrity.ts'
import type { Rendition } from './ladder.ts'
import {
  type EncodedLadder,
  earlyMasterOf,
  emptyFolder,
  encodeAndVerify,
  endSound,
  isWhole,
  type LadderRun,
  ladderOf,
  type MadePass,
  type PassWatch,
  takeOver,
  timelineFor,
} from './one-pass.ts'
import { type PassPlan, planCopiedPasses, planPasses, planReasonOf } from './pass-plan.ts'
import { LOOK_MS, runEncodePass } from './run-encode-pass.ts'
import { runShared } from './shared-run.ts'
import { openSegmentReader, type VerifiedStream, verifyVideo } from './verify.ts'

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
  return ladderOf(run, made, planReason)
}

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
    const sound = encoding && (await soundBeside(run, encoding, { rendition, frames: made.frames }))
    await early()
    const videos = [{ rendition, ...made }]
    return { videos, audio: sound?.audio ?? null, isWhole: isWhole(report) && sound?.isWhole !== false }
  } catch (error) {
    stop.abort(error)
    await encoding?.catch(() => {})
    throw error
  }
}

/** The sound beside a copy, once its encoder has ended. Throws SoundFailed. */
async function soundBeside(
  run: LadderRun,
  encoding: Promise<Complaints>,
  made: { rendition: Rendition; frames: number },
): Promise<{ audio: VerifiedStream; isWhole: boolean }> {
  try {
    const complaints = await encoding
    refuseBroken(run.source, complaints, made)
    return { audio: await endSound(run), isWhole: isWhole(complaints) }
  } catch (error) {
    throw new SoundFailed('the sound cannot be made', { cause: error })
  }
}
