import { type RunOutput, type RunStatus, succeededOf } from '../../../../crds/run.ts'
import type { TranscodeInput, TranscodeJobSpec } from '../../../../crds/transcode-job.ts'
import { type ConversionErrorCode, conversionErrorOf } from '../../../../lib/contract/conversion-error.ts'
import { parseId, type Uuid } from '../../../../lib/contract/ids.ts'
import type { ConversionError } from '../../../db/schema/media.ts'
import { keepable, progressOf, runOf } from '../../../worker/run-facts.ts'
import type { Run, RunningConversion } from './plan.ts'

/** The part of a TranscodeJob that determines the state of its inputs. */
export interface TranscodeJobSeen {
  metadata: { name: string }
  spec: Pick<TranscodeJobSpec, 'inputs'>
  status?: RunStatus
}

/**
 * What a TranscodeJob says about one media item, in the API's terms. The prefix identifies the generation. `sharedBy`:
 * the name of a TranscodeJob that failed as a whole, with other inputs, and says nothing about this one.
 */
export type Fact = { mediaId: Uuid; prefix: string } & (
  | { state: 'queued' }
  | ({ state: 'running'; playable: boolean } & RunningConversion)
  | { state: 'succeeded'; run?: Run }
  | { state: 'failed'; error: ConversionError; run: Run; sharedBy: string | null }
)

/** Returns one fact per media item. Other inputs have none: any client with permission may create a TranscodeJob. */
export function factsOf(job: TranscodeJobSeen): Fact[] {
  return job.spec.inputs.flatMap((input) => {
    const mediaId = parseId('media', input.id)
    return mediaId ? [{ mediaId, prefix: input.outputPrefix, ...stateOf(input, job) }] : []
  })
}

type State = Fact extends infer F ? (F extends Fact ? Omit<F, 'mediaId' | 'prefix'> : never) : never

/** The checks stand in order of precedence: an input that is done stays done when others fail. */
function stateOf(input: TranscodeInput, { metadata, spec, status = {} }: TranscodeJobSeen): State {
  const condition = succeededOf(status)
  const run = runOf(status)
  const output = status.outputs?.find((o) => o.id === input.id)
  if (output?.state === 'Succeeded') return { state: 'succeeded', run }
  if (output?.state === 'Failed')
    return { state: 'failed', error: errorOf(input, output.reason, output.message), run, sharedBy: null }
  // The manifest is the commit, even when the status does not list the output.
  if (condition?.status === 'True') return { state: 'succeeded', run }
  if (condition?.status === 'False') {
    const error = errorOf(input, condition.reason, condition.message)
    return { state: 'failed', error, run, sharedBy: spec.inputs.length > 1 ? metadata.name : null }
  }
  return status.phase === 'Running' ? runningOf(input, status) : { state: 'queued' }
}

function runningOf(input: TranscodeInput, status: RunStatus): State {
  // The progress of a batch says nothing about one image, and would be written to each of its members.
  const progress = input.type === 'image' ? undefined : status.progress
  return {
    state: 'running',
    ...runOf(status),
    progress: progressOf(progress),
    playable: progress?.playable?.includes(input.id) ?? false,
  }
}

/** Tells the uploader what is wrong with the file; for a fault of the platform, only that the file is not the cause. */
function errorOf(
  { type }: Pick<TranscodeInput, 'type'>,
  reason: string | undefined,
  message: RunOutput['message'],
): ConversionError {
  const code = conversionErrorOf(reason)
  const isOurs = code === 'INTERNAL' || code === 'TIMEOUT'
  const said = isOurs ? undefined : message && keepable(message)
  return { code, message: said || wordsFor(code, type), ...(reason && { reason }) }
}

/** For a person who has never heard of codecs; also where the message did not fit into the result of the Job. */
function wordsFor(code: ConversionErrorCode, type: TranscodeInput['type']): string {
  if (code === 'INTERNAL') return 'The conversion failed for a reason unrelated to the file'
  if (code === 'TIMEOUT') return 'The conversion exceeded its time limit'
  const file = type === 'image' ? 'picture' : 'video'
  if (code === 'LIMIT_EXCEEDED') return `The ${file} is too large to be converted`
  if (code === 'UNSUPPORTED_CODEC') return `The format of the ${file} is not supported`
  return 'The file is damaged'
}
