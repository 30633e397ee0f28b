import { attemptsOf, vanishedFailures } from '../jobs/attempts.ts'
import { isOwnedBy, type Job, jobCondition, type Pod } from '../jobs/batch.ts'
import { type Ending, endingOf } from '../jobs/ending.ts'
import {
  disruptionOf,
  failureOf,
  hasRun,
  isLast,
  lastEnded,
  livePod,
  resultOf,
  unheardSince,
  wasOutOfMemory,
} from '../jobs/evidence.ts'
import { judgeOutdated, judgeWaiting, judgeWithoutPod, QUEUED } from '../jobs/waiting.ts'
import { isOutgrown, moreMemory, shapeOf, shapesLearned } from './shape.ts'
import { type Evidence, failed, isGone, pending, running, type Verdict } from './verdict.ts'

/** The number of Jobs that the operator replaces because no pod could start, before the resource fails. */
export const MAX_RESTARTS = 3

/** Decides what the state of a TranscodeJob's Job and pods means. The order of the lines is the order of precedence. */
export function judge(seen: Evidence): Verdict {
  const { resource, job, config } = seen
  if (!job) return pending('Creating', 'Creating the Job')
  if (!isOwnedBy(job, resource.metadata.uid)) {
    return failed('NameTaken', `The Job ${job.metadata.name} exists already and belongs to another object`)
  }
  if (jobCondition(job, 'Complete')) return judgeComplete(seen)
  const isOver = jobCondition(job, 'Failed') !== undefined
  if (resource.spec.suspend && !isOver && !job.metadata.deletionTimestamp) {
    return { status: 'Unknown', phase: 'Suspended', reason: 'Suspended', message: 'Suspended by spec.suspend' }
  }
  const ending = endingOf(job)
  if (ending) return judgeEnding(seen, ending, isOver)
  if (isOutgrown(resource, shapeOf(job, config))) return judgeOutgrown(seen, isOver)
  if (isOutOfMemory(seen)) return judgeOutOfMemory(seen, job, isOver)
  if (isOver) return judgeFailed(seen, job)
  const outdated = judgeOutdated(seen, job)
  if (outdated) return outdated
  if (job.metadata.deletionTimestamp) return pending('Creating', 'The Job is being deleted; a new one will follow')
  return judgeRunning(seen, job)
}

/** `2 of 3`. Deleting a Job grants one more attempt. */
function nthAttempt(seen: Evidence): string {
  const n = attemptsOf(seen)
  return `${n} of ${Math.max(n, seen.resource.spec.maxAttempts)}`
}

function judgeComplete({ resource, pods }: Evidence): Verdict {
  const result = resultOf(pods.find((p) => p.status?.phase === 'Succeeded'))
  if (!result?.ok) return failed('ResultMissing', 'The Job finished without a result')
  const n = resource.spec.inputs.length
  return { status: 'True', phase: 'Succeeded', reason: 'Succeeded', message: `${n} of ${n} inputs converted` }
}

/** What the operator decided when it ended this Job, whatever its pods show by now. */
function judgeEnding(seen: Evidence, { next, reason, message }: Ending, isOver: boolean): Verdict {
  if (next === 'Fail') return isOver ? failed(reason, message) : { ...running(reason, message), endJob: next }
  const verdict = { ...pending(reason, message), endJob: next }
  if (!isGone(seen, isOver)) return verdict
  return next === 'StartOver' ? { ...verdict, startOver: true } : { ...verdict, remake: true, lookAgainMs: 1000 }
}

/** The status already has the reason to replace this Job; it keeps that reason until the Job has ended. */
function judgeOutgrown(seen: Evidence, isOver: boolean): Verdict {
  const { resource } = seen
  const { gpuGivenUp, memory, conditions } = resource.status ?? {}
  const said = conditions?.find((c) => c.reason === 'OOMKilled' || c.reason === 'GpuUnavailable')
  const { reason, message } = said ?? {
    reason: 'Retrying',
    message: gpuGivenUp ?? `The next Job gets ${memory} of memory`,
  }
  if (!isOver) return { ...pending(reason, message), endJob: 'StartOver' }
  return { ...pending(reason, message), ...(isGone(seen, isOver) && { startOver: true }) }
}

/** Whether the last attempt ran out of memory and no later attempt runs. */
function isOutOfMemory({ pods }: Evidence): boolean {
  const live = livePod(pods)
  return wasOutOfMemory(lastEnded(pods)) && !(live && hasRun(live))
}

/** Retries with more memory: a retry with the same memory would fail the same way. */
function judgeOutOfMemory(seen: Evidence, job: Job, isOver: boolean): Verdict {
  const { resource, config } = seen
  const { memory } = shapeOf(job, config)
  const more = moreMemory(memory, config.memoryMax)
  const what = `Attempt ${nthAttempt(seen)} needed more than ${memory} of memory`
  if (more !== undefined && attemptsOf(seen) < resource.spec.maxAttempts) {
    const message = `${what}; the next one gets ${more}`
    return {
      ...pending('OOMKilled', message),
      learned: { memory: more },
      ...(isGone(seen, isOver) && { startOver: true }),
    }
  }
  const message = more === undefined ? `${what}, which is the maximum` : what
  return isOver ? failed('OOMKilled', message) : { ...running('OOMKilled', message), endJob: 'Fail' }
}

/** Replaced Jobs, without those replaced by one of another shape. */
function restartsForNothing({ resource: { status }, config }: Evidence): number {
  return (status?.restarts ?? 0) - shapesLearned(status, config)
}

function judgeFailed(seen: Evidence, job: Job): Verdict {
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
  return { ...pending('Retrying', `No attempt could start; retrying with a new Job: ${why}`), startOver: true }
}

function judgeRunning(seen: Evidence, job: Job): Verdict {
  const { pods, resource } = seen
  const isRunning = running('Running', `Attempt ${nthAttempt(seen)} is running`)
  const live = livePod(pods)
  if (live) {
    if (hasRun(live)) return judgeUnheard(seen, live) ?? isRunning
    return judgeWaiting(seen, job, live) ?? QUEUED
  }
  const ended = lastEnded(pods)
  if (!ended) return judgeVanished(seen, job) ?? judgeWithoutPod(seen, job)
  const disruption = disruptionOf(ended)
  if (disruption) {
    const { reason = 'disruption', message = '' } = disruption
    return running(
      'Interrupted',
      `The cluster ended the pod, which does not count as an attempt: ${reason}: ${message}`,
    )
  }
  // The Job controller takes a moment to mark the Job as failed. Until then do not announce a retry.
  if (attemptsOf(seen) >= resource.spec.maxAttempts || isLast(ended)) return isRunning
  const { reason = 'Failed', message = '' } = failureOf(ended) ?? {}
  return running('Retrying', `Attempt ${nthAttempt(seen)} failed: ${reason}: ${message}`)
}

/** Of a failed pod that was deleted, only the Job's count is left. */
function judgeVanished(seen: Evidence, job: Job): Verdict | undefined {
  if (vanishedFailures(job, seen.pods) === 0) return undefined
  if (attemptsOf(seen) >= seen.resource.spec.maxAttempts) return running('Running', 'The last attempt has ended')
  return running('Retrying', `Attempt ${nthAttempt(seen)} failed: its pod was deleted`)
}

/** On a lost node an attempt has not failed: it may still run and post progress. */
function judgeUnheard(seen: Evidence, pod: Pod): Verdict | undefined {
  const since = unheardSince(pod)
  if (since === undefined) return undefined
  return running('NodeUnreachable', `The node of attempt ${nthAttempt(seen)} has not reported since ${since}`)
}
