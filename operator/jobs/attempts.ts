import type { Job, Pod } from './batch.ts'
import { endingOf } from './ending.ts'
import { disruptionOf, hasRun } from './evidence.ts'

interface Counted {
  /** Attempts that the resource's status records. */
  recorded: number
  job: Job
  /** Attempts of earlier Jobs of the resource. */
  before: number
  /** Pods of this Job. */
  pods: readonly Pod[]
}

/**
 * Attempts so far, including those of earlier Jobs: what the Job has counted plus the running pod. The Job's count
 * outlives its pods. It excludes pods that the cluster disrupted or that were suspended, so an attempt that counted
 * while it ran is subtracted again.
 */
export function attemptsOf({ recorded, job, before, pods }: Counted): number {
  // A Job that is ending or deleted removes its pods; it may count all of them or none, so its count is not used.
  const ending = endingOf(job)
  const isEnding =
    ending || job.metadata.deletionTimestamp !== undefined || job.spec.activeDeadlineSeconds !== undefined
  if (isEnding) return Math.max(recorded, ending?.attempts ?? 0, before + pods.filter(isAttempt).length)
  const known = before + countedOrRunning(job, pods)
  return pods.some(isUncounted) ? Math.max(recorded, known) : known
}

/** The number of failed attempts whose pods no longer exist, because they were deleted or garbage collected. */
export function vanishedFailures({ status }: Job, pods: readonly Pod[]): number {
  const failures = pods.filter((pod) => pod.status?.phase === 'Failed' && disruptionOf(pod) === undefined)
  return Math.max(0, (status?.failed ?? 0) - failures.length)
}

/** A pod that never ran, or that the cluster disrupted, is not an attempt. */
const isAttempt = (pod: Pod): boolean => hasRun(pod) && disruptionOf(pod) === undefined

function countedOrRunning(job: Job, pods: readonly Pod[]): number {
  const attempts = pods.filter(isAttempt)
  const others = attempts.filter((pod) => pod.status?.phase !== 'Failed').length
  const refused = pods.filter((pod) => pod.status?.phase === 'Failed' && !hasRun(pod) && !disruptionOf(pod)).length
  const { failed = 0, succeeded = 0 } = job.status ?? {}
  return Math.max(attempts.length, failed - refused + Math.max(succeeded, others))
}

/** The Job controller keeps a finalizer on a failed pod until it has counted it; until then the count is too low. */
const isUncounted = (pod: Pod): boolean =>
  pod.status?.phase === 'Failed' && disruptionOf(pod) === undefined && (pod.metadata.finalizers?.length ?? 0) > 0
