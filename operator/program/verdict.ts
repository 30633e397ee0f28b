import type { Condition } from '../../crds/kind.ts'
import type { RunStatus } from '../../crds/run.ts'
import type { Ending } from '../jobs/ending.ts'

/** What the next Job needs to know; recorded in status, which outlives Jobs. */
export type Learned = Pick<RunStatus, 'memory' | 'gpuGivenUp'>

/**
 * The next step towards the end or the replacement of a Job. A Job's template is immutable, so attempts of another
 * shape or configuration need another Job, and two attempts must never write at the same time:
 *
 * 1. `record` in status what the next Job needs, so that a crash cannot lose it. Only for another shape.
 * 2. `end` the Job and its pod gracefully. An annotation, written in the same patch, says what follows: the failure of
 *    the resource, or the next Job. The step repeats, without effect, until both are gone.
 * 3. `replace`: delete the Job. `StartOver` also counts a restart, which gives the next Job another name; `Remake`
 *    creates the same Job again with the current configuration.
 * 4. The next reconcile finds no Job and creates one.
 *
 * A Job that has failed by itself skips step 2.
 */
export type Step =
  | { do: 'record'; learned: Learned }
  | { do: 'end'; next: Ending['next'] }
  | { do: 'replace'; how: 'StartOver' | 'Remake'; learned?: Learned }

export type Verdict = Pick<Condition, 'status' | 'reason' | 'message'> & {
  phase: NonNullable<RunStatus['phase']>
  step?: Step
  /** Reconcile again after this time, which alone may change the verdict. */
  lookAgainMs?: number
}

interface Finding {
  reason: string
  message: string
  lookAgainMs?: number
}

export const pending = ({ reason, message, lookAgainMs }: Finding): Verdict => ({
  status: 'Unknown',
  phase: 'Pending',
  reason,
  message,
  ...(lookAgainMs !== undefined && { lookAgainMs }),
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
