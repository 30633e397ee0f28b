import type { Condition } from '../../crds/kind.ts'
import type { TranscodeJob, TranscodeJobStatus } from '../../crds/transcode-job.ts'
import type { Job, Pod } from './batch.ts'
import type { ChildConfig } from './child.ts'
import { livePod } from './evidence.ts'

export interface Evidence {
  resource: TranscodeJob
  job: Job | undefined
  /** Of this Job alone. */
  pods: readonly Pod[]
  config: ChildConfig
  now: Date
}

export type Verdict = Pick<Condition, 'status' | 'reason' | 'message'> & {
  phase: NonNullable<TranscodeJobStatus['phase']>
  /** Give this Job up and start over with another one. */
  startOver?: true
  /** Delete this Job, whose pods are gone: the same one is made again, as things are configured now. */
  remake?: true
  /** End this Job in good order, its pod included: nothing may follow before that is gone. */
  endJob?: true
  /** What the next Job is to be given, or not to ask for. */
  learned?: Pick<TranscodeJobStatus, 'memory' | 'gpuGivenUp'>
  /** Time alone may change this verdict. */
  lookAgainMs?: number
}

export const pending = (reason: string, message: string): Verdict => ({
  status: 'Unknown',
  phase: 'Pending',
  reason,
  message,
})
export const running = (reason: string, message: string): Verdict => ({
  status: 'Unknown',
  phase: 'Running',
  reason,
  message,
})
export const failed = (reason: string, message: string): Verdict => ({
  status: 'False',
  phase: 'Failed',
  reason,
  message,
})

/** A Job may be called failed while a pod of it is still ending, and two attempts must never write side by side. */
export const isGone = ({ pods }: Evidence, isOver: boolean): boolean => isOver && livePod(pods) === undefined
