import type { RunStatus } from '../../../../crds/run.ts'
import type { TranscodeInput, TranscodeJobSpec } from '../../../../crds/transcode-job.ts'
import { type ConversionErrorCode, conversionErrorOf } from '../../../../lib/contract/conversion-error.ts'
import { parseId } from '../../../../lib/contract/ids.ts'
import type { KubeObject } from '../../../../lib/runtime/kube/cluster.ts'
import type { ConversionError } from '../../../db/schema/media.ts'
import { type Failed, keepable, type RunFact, runStateOf } from '../../../worker/runs/facts.ts'

/** The part of a TranscodeJob that determines the state of its inputs. */
export interface TranscodeJobSeen {
  metadata: { name: string }
  spec: Pick<TranscodeJobSpec, 'inputs'>
  status?: RunStatus
}

export type TranscodeJobObject = KubeObject & TranscodeJobSeen

/** Returns one fact per media item. Other inputs have none: any client with permission may create a TranscodeJob. */
export function factsOf({ metadata, spec, status = {} }: TranscodeJobSeen): RunFact<ConversionError>[] {
  const sharedBy = spec.inputs.length > 1 ? metadata.name : null
  return spec.inputs.flatMap((input) => {
    const id = parseId('media', input.id)
    if (!id) return []
    const errorOf = (failed: Failed) => conversionErrorFor(input, failed)
    const state = runStateOf({ id: input.id, status: statusFor(input, status), sharedBy, errorOf })
    return [{ id, prefix: input.outputPrefix, ...state }]
  })
}

/** The progress of a batch says nothing about one image, and would be written to each of its members. */
const statusFor = ({ type }: TranscodeInput, status: RunStatus): RunStatus =>
  type === 'image' ? { ...status, progress: undefined } : status

/** Tells the uploader what is wrong with the file; for a fault of the platform, only that the file is not the cause. */
function conversionErrorFor({ type }: TranscodeInput, { reason, message }: Failed): ConversionError {
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
