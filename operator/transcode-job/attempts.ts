import type { TranscodeJob } from '../../crds/transcode-job.ts'
import { isOwnedBy, type Job, type Pod } from './batch.ts'
import { disruptionOf, hasRun } from './evidence.ts'
import { type ShapeConfig, shapeOf } from './shape.ts'

interface Seen {
  resource: TranscodeJob
  job: Job | undefined
  pods: readonly Pod[]
  config: ShapeConfig
}

/**
 * Attempts so far, those of earlier Jobs included: what the Job counts, and what runs now. The Job's own count outlives
 * its pods; it leaves out what the cluster itself ended and what was suspended, so that such an attempt, which counted
 * while it ran, is taken back.
 */
export function attemptsOf({ resource, job, pods, config }: Seen): number {
  const recorded = resource.status?.attempts ?? 0
  if (!job || !isOwnedBy(job, resource.metadata.uid)) return recorded
  const before = shapeOf(job, config).attemptsBefore
  // A Job that is told to end, or deleted, takes pods along: it counts them, or nothing any more, whatever they were.
  const isEnding = job.metadata.deletionTimestamp !== undefined || job.spec.activeDeadlineSeconds !== undefined
  if (isEnding) return Math.max(recorded, before + pods.filter(isAttempt).length)
  const known = before + countedOrRunning(job, pods)
  return pods.some(isUncounted) ? Math.max(recorded, known) : known
}

/** Pods of this Job that failed and left nothing behind: somebody deleted them, or they were collected. */
export function vanishedFailures({ status }: Job, pods: readonly Pod[]): number {
  const failures = pods.filter((pod) => pod.status?.phase === 'Failed' && disruptionOf(pod) === undefined)
  return Math.max(0, (status?.failed ?? 0) - failures.length)
}

/** What never ran is none, and the Job does not count what the cluster itself ended. */
const isAttempt = (pod: Pod): boolean => hasRun(pod) && disruptionOf(pod) === undefined

function countedOrRunning(job: Job, pods: readonly Pod[]): number {
  const attempts = pods.filter(isAttempt)
  const others = attempts.filter((pod) => pod.status?.phase !== 'Failed').length
  const refused = pods.filter((pod) => pod.status?.phase === 'Failed' && !hasRun(pod) && !disruptionOf(pod)).length
  const { failed = 0, succeeded = 0 } = job.status ?? {}
  return Math.max(attempts.length, failed - refused + Math.max(succeeded, others))
}

/** The Job holds a failed pod until it has counted it; meanwhile its count says too little. */
const isUncounted = (pod: Pod): boolean =>
  pod.status?.phase === 'Failed' && disruptionOf(pod) === undefined && (pod.metadata.finalizers?.length ?? 0) > 0
