import { vanishedFailures } from '../jobs/attempts.ts'
import { isOwnedBy, isTerminalPod, type Job, jobCondition, type Pod } from '../jobs/batch.ts'
import { type Ending, endingOf } from '../jobs/ending.ts'
import {
  disruptionOf,
  failureOf,
  hasRun,
  isLast,
  lastEnded,
  livePod,
  successOf,
  unheardSince,
  wasOutOfMemory,
} from '../jobs/evidence.ts'
import { QUEUED, waitingOf, waitingWithoutPod } from '../jobs/waiting.ts'
import { configurationOf, madeOf } from './child.ts'
import { attemptsSoFar, type Observed } from './observed.ts'
import { isOutgrown, moreMemory, shapeOf, shapesLearned } from './shape.ts'
import { failed, pending, running, type Step, type Verdict } from './verdict.ts'

/** The number of Jobs that the operator replaces because no pod could start, before the resource fails. */
export const MAX_RESTARTS = 3

const START_OVER = { do: 'replace', how: 'StartOver' } as const satisfies Step

/** Decides what the state of a resource's Job and pods means. The order of the lines is the order of precedence. */
export function judge(seen: Observed): Verdict {
  const { resource, job, config } = seen
  if (!job) return pending({ reason: 'Creating', message: 'Creating the Job' })
  if (!isOwnedBy(job, resource.metadata.uid)) {
    return failed('NameTaken', `The Job ${job.metadata.name} exists already and belongs to another object`)
  }
  const isOver = jobCondition(job, 'Failed') !== undefined
  if (jobCondition(job, 'Complete')) return judgeComplete(seen)
  if (resource.spec.suspend && !isOver && !job.metadata.deletionTimestamp) {
    return { status: 'Unknown', phase: 'Suspended', reason: 'Suspended', message: 'Suspended by spec.suspend' }
  }
  const ending = endingOf(job)
  if (ending) return judgeEnding(seen, ending, isOver)
  if (isOutgrown(resource, shapeOf(job, config))) return judgeOutgrown(seen, isOver)
  if (isOutOfMemory(seen)) return judgeOutOfMemory(seen, job, isOver)
  if (isOver) return isCollected(seen, job) ? RECREATED : judgeFailed(seen, job)
  const outdated = judgeOutdated(seen, job)
  if (outdated) return outdated
  if (job.metadata.deletionTimestamp) return RECREATED
  return judgeRunning(seen, job)
}

/** `2 of 3`. Deleting a Job grants one more attempt. */
function nthAttempt(seen: Observed): string {
  const n = attemptsSoFar(seen)
  return `${n} of ${Math.max(n, seen.resource.spec.maxAttempts)}`
}

/**
 * Whether a failed Job is being collected, and the pod that says why it failed is gone already: the time to live was over
 * before the operator looked. The Job goes after its pods.
 */
const isCollected = ({ pods }: Observed, job: Job): boolean =>
  job.metadata.deletionTimestamp !== undefined && !pods.some(isTerminalPod)

const RECREATED = pending({ reason: 'Creating', message: 'The Job is being deleted; a new one will follow' })

function judgeComplete({ kind, resource, pods }: Observed): Verdict {
  const done = kind.successMessage(resource.spec)
  const message = successOf(pods) ? done : `${done}, as the Job says; the result that its program wrote is lost`
  return { status: 'True', phase: 'Succeeded', reason: 'Succeeded', message }
}

/** A failed Job may still have a pod that is ending, and two attempts must never write at the same time. */
const isGone = ({ pods }: Observed, isOver: boolean): boolean => isOver && livePod(pods) === undefined

/** What the operator decided when it ended this Job, whatever its pods show by now. */
function judgeEnding(seen: Observed, { next, reason, message }: Ending, isOver: boolean): Verdict {
  const end: Step = { do: 'end', next }
  if (next === 'Fail') return isOver ? failed(reason, message) : { ...running(reason, message), step: end }
  const step: Step = isGone(seen, isOver) ? { do: 'replace', how: next } : end
  return { ...pending({ reason, message }), step }
}

/** The status already has the reason to replace this Job; it keeps that reason until the Job has ended. */
function judgeOutgrown(seen: Observed, isOver: boolean): Verdict {
  const { resource } = seen
  const { gpuGivenUp, memory, conditions } = resource.status ?? {}
  const said = conditions?.find((c) => c.reason === 'OOMKilled' || c.reason === 'GpuUnavailable')
  const verdict = pending(
    said ?? { reason: 'Retrying', message: gpuGivenUp ?? `The next Job gets ${memory} of memory` },
  )
  if (!isOver) return { ...verdict, step: { do: 'end', next: 'StartOver' } }
  return isGone(seen, isOver) ? { ...verdict, step: START_OVER } : verdict
}

/** Whether the last attempt ran out of memory and no later attempt runs. */
function isOutOfMemory({ pods }: Observed): boolean {
  const live = livePod(pods)
  return wasOutOfMemory(lastEnded(pods)) && !(live && hasRun(live))
}

/** Retries with more memory: a retry with the same memory would fail the same way. */
function judgeOutOfMemory(seen: Observed, job: Job, isOver: boolean): Verdict {
  const { resource, config } = seen
  const { memory } = shapeOf(job, config)
  const more = moreMemory(memory, config.memoryMax)
  const what = `Attempt ${nthAttempt(seen)} needed more than ${memory} of memory`
  if (more !== undefined && attemptsSoFar(seen) < resource.spec.maxAttempts) {
    const learned = { memory: more }
    const step: Step = isGone(seen, isOver) ? { ...START_OVER, learned } : { do: 'record', learned }
    return { ...pending({ reason: 'OOMKilled', message: `${what}; the next one gets ${more}` }), step }
  }
  const message = more === undefined ? `${what}, which is the maximum` : what
  return isOver ? failed('OOMKilled', message) : { ...running('OOMKilled', message), step: { do: 'end', next: 'Fail' } }
}

/** Replaced Jobs, without those replaced by one of another shape. */
function restartsForNothing({ resource: { status }, config }: Observed): number {
  return (status?.restarts ?? 0) - shapesLearned(status, config)
}

function judgeFailed(seen: Observed, job: Job): Verdict {
  const { pods } = seen
  const known = failureOf(lastEnded(pods))
  if (known) return failed(known.reason, known.message)
  const condition = jobCondition(job, 'Failed')
  if (pods.length === 0 || pods.some(hasRun)) {
    return failed(condition?.reason ?? 'Failed', condition?.message ?? 'The Job gives no reason')
  }
  // The kubelet rejected the pod or could not pull the image: a fault of the configuration or the cluster, not the
  // media item's.
  const why = pods.map((p) => p.status?.message ?? p.status?.reason).find((text) => text) ?? 'no pod gives a reason'
  if (restartsForNothing(seen) >= MAX_RESTARTS) return failed('NeverStarted', `No attempt could start: ${why}`)
  const message = `No attempt could start; retrying with a new Job: ${why}`
  return { ...pending({ reason: 'Retrying', message }), step: START_OVER }
}

function judgeRunning(seen: Observed, job: Job): Verdict {
  const { pods, resource } = seen
  const isRunning = running('Running', `Attempt ${nthAttempt(seen)} is running`)
  const live = livePod(pods)
  if (live) {
    if (hasRun(live)) return judgeUnheard(seen, live) ?? isRunning
    return judgeWaiting(seen, job, live) ?? pending(QUEUED)
  }
  const ended = lastEnded(pods)
  if (!ended) return judgeVanished(seen, job) ?? pending(waitingWithoutPod(job, seen.now))
  const disruption = disruptionOf(ended)
  if (disruption) {
    const { reason = 'disruption', message = '' } = disruption
    return running(
      'Interrupted',
      `The cluster ended the pod, which does not count as an attempt: ${reason}: ${message}`,
    )
  }
  // The Job controller takes a moment to mark the Job as failed. Until then do not announce a retry.
  if (attemptsSoFar(seen) >= resource.spec.maxAttempts || isLast(ended)) return isRunning
  const { reason = 'Failed', message = '' } = failureOf(ended) ?? {}
  return running('Retrying', `Attempt ${nthAttempt(seen)} failed: ${reason}: ${message}`)
}

/** Of a failed pod that was deleted, only the Job's count is left. */
function judgeVanished(seen: Observed, job: Job): Verdict | undefined {
  if (vanishedFailures(job, seen.pods) === 0) return undefined
  if (attemptsSoFar(seen) >= seen.resource.spec.maxAttempts) return running('Running', 'The last attempt has ended')
  return running('Retrying', `Attempt ${nthAttempt(seen)} failed: its pod was deleted`)
}

/** On a lost node an attempt has not failed: it may still run and post progress. */
function judgeUnheard(seen: Observed, pod: Pod): Verdict | undefined {
  const since = unheardSince(pod)
  if (since === undefined) return undefined
  return running('NodeUnreachable', `The node of attempt ${nthAttempt(seen)} has not reported since ${since}`)
}

/** What a pod waits for. A resource with `auto` falls back to the CPU after the configured wait for a GPU. */
function judgeWaiting(seen: Observed, job: Job, pod: Pod): Verdict | undefined {
  const { resource, config, now } = seen
  const waiting = waitingOf(pod, now)
  if (!waiting) return undefined
  const verdict = pending(waiting)
  const waitsForGpu = resource.spec.accelerator === 'auto' && shapeOf(job, config).gpu
  if (waiting.reason !== 'Unschedulable' || !waitsForGpu) return verdict
  const waitMs = config.gpuWaitSeconds * 1000
  const waitedMs = now.getTime() - Date.parse(waiting.unschedulableSince ?? now.toISOString())
  if (waitedMs < waitMs) return { ...verdict, lookAgainMs: waitMs - waitedMs }
  const gpuGivenUp = `no GPU was free within ${config.gpuWaitSeconds} s: ${waiting.message}`.slice(0, 256)
  const message = `Continuing on the CPU: ${gpuGivenUp}`
  return { ...pending({ reason: 'GpuUnavailable', message }), step: { do: 'record', learned: { gpuGivenUp } } }
}

/**
 * Replaces a Job whose pod cannot start and whose configuration differs from the operator's: an administrator has
 * probably fixed the cause, and a Job's template is immutable.
 */
function judgeOutdated(seen: Observed, job: Job): Verdict | undefined {
  const made = madeOf(job)
  if (made === undefined || made === configurationOf(seen.config)) return undefined
  const live = livePod(seen.pods)
  const waits = live && !hasRun(live) ? judgeWaiting(seen, job, live) : undefined
  if (!waits || waits.reason === QUEUED.reason) return undefined
  const why = `${waits.reason}: ${waits.message}`.slice(0, 900)
  const message = `${why}; the configuration has changed since, so a new Job replaces this one`
  return { ...pending({ reason: 'Outdated', message }), step: { do: 'end', next: 'Remake' } }
}
