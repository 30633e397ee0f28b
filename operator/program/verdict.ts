import type { Condition } from '../../crds/kind.ts'
import type { RunStatus } from '../../crds/run.ts'
import type { TranscodeJob } from '../../crds/transcode-job.ts'
import type { Job, Pod } from '../jobs/batch.ts'
import type { Ending } from '../jobs/ending.ts'
import { livePod } from '../jobs/evidence.ts'
import type { ChildConfig } from './child.ts'

export interface Evidence {
  resource: TranscodeJob
  job: Job | undefined
  /** Pods of this Job only. */
  pods: readonly Pod[]
  config: ChildConfig
  now: Date
}

export type Verdict = Pick<Condition, 'status' | 'reason' | 'message'> & {
  phase: NonNullable<RunStatus['phase']>
  /** Replace this Job by a new one with the next number. */
  startOver?: true
  /** Delete this Job, whose pods have ended, and create it again under the same name with the current configuration. */
  remake?: true
  /** End this Job and its pod gracefully, for this to follow. The next Job must not start before the pod has ended. */
  endJob?: Ending['next']
  /** The shape of the next Job, recorded in status first. */
  learned?: Pick<RunStatus, 'memory' | 'gpuGivenUp'>
  /** Reconcile again after this time, which alone may change the verdict. */
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

/** A failed Job may still have a pod that is ending, and two attempts must never write at the same time. */
export const isGone = ({ pods }: Evidence, isOver: boolean): boolean => isOver && livePod(pods) === undefined
