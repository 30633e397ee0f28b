import { attemptsOf, vanishedFailures } from './attempts.ts'
import { isOwnedBy, type Job, jobCondition, type Pod } from './batch.ts'
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
} from './evidence.ts'
import { isOutgrown, moreMemory, shapeOf, shapesLearned } from './shape.ts'
import { type Evidence, failed, isGone, pending, running, type Verdict } from './verdict.ts'
import { judgeOutdated, judgeWaiting, judgeWithoutPod, QUEUED } from './waiting.ts'

/** So many Jobs may be given up because their pods could not even start, before the resource fails. */
export const MAX_RESTARTS = 3

/** The whole policy of what a TranscodeJob's state means. The order of the lines is the order of precedence. */
export function judge(seen: Evidence): Verdict {
  const { resource, job, config } = seen
  if (!job) return pending('Creating', 'Creating the Job')
  if (!isOwnedBy(job, resource.metadata.uid)) {
    return failed('NameTaken', `Another object owns the Job ${job.metadata.name}, whose name this one needs`)
  }
  if (jobCondition(job, 'Complete')) return judgeComplete(seen)
  const isOver = jobCondition(job, 'Failed') !== undefined
  if (resource.spec.suspend && !isOver && !job.metadata.deletionTimestamp) {
    return { status: 'Unknown', phase: 'Suspended', reason: 'Suspended', message: 'Suspended by spec.suspend' }
  }
  if (isOutgrown(resource, shapeOf(job, config))) return judgeOutgrown(seen, isOver)
  if (isOutOfMemory(seen)) return judgeOutOfMemory(seen, job, isOver)
  const outdated = judgeOutdated(seen, job, isOver)
  if (outdated) return outdated
  if (isOver) return judgeFailed(seen, job)
  if (job.metadata.deletionTimestamp) return pending('Creating', 'The Job is being deleted; another one will follow')
  return judgeRunning(seen, job)
}

/** `2 of 3`. Who deletes a Job is given one attempt more. */
function nthAttempt(seen: Evidence): string {
  const n = attemptsOf(seen)
  return `${n} of ${Math.max(n, seen.resource.spec.maxAttempts)}`
}

function judgeComplete({ resource, pods }: Evidence): Verdict {
  const result = resultOf(pods.find((p) => p.status?.phase === 'Succeeded'))
  if (!result?.ok) return failed('ResultMissing', 'The Job finished without saying what it made')
  const n = resource.spec.inputs.length
  return { status: 'True', phase: 'Succeeded', reason: 'Succeeded', message: `${n} of ${n} inputs converted` }
}

/** Status says already what is wrong with this Job; it keeps saying so until the Job has made room. */
function judgeOutgrown(seen: Evidence, isOver: boolean): Verdict {
  const { resource } = seen
  const { gpuGivenUp, memory, conditions } = resource.status ?? {}
  const said = conditions?.find((c) => c.reason === 'OOMKilled' || c.reason === 'GpuUnavailable')
  const { reason, message } = said ?? {
    reason: 'Retrying',
    message: gpuGivenUp ?? `Another Job gets ${memory} of memory`,
  }
  if (!isOver) return { ...pending(reason, message), endJob: true }
  return { ...pending(reason, message), ...(isGone(seen, isOver) && { startOver: true }) }
}

/** Whether the last thing that happened is that memory ran out; a later attempt that runs has its chance. */
function isOutOfMemory({ pods }: Evidence): boolean {
  const live = livePod(pods)
  return wasOutOfMemory(lastEnded(pods)) && !(live && hasRun(live))
}

/** Trying again with the same memory would end the same way. */
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
  const message = more === undefined ? `${what}, the most it may have` : what
  return isOver ? failed('OOMKilled', message) : { ...running('OOMKilled', message), endJob: true }
}

/** Jobs given up, without those that made room for one of another shape. */
function restartsForNothing({ resource: { status }, config }: Evidence): number {
  return (status?.restarts ?? 0) - shapesLearned(status, config)
}

function judgeFailed(seen: Evidence, job: Job): Verdict {
  const { pods } = seen
  const known = failureOf(lastEnded(pods))
  if (known) return failed(known.reason, known.message)
  const condition = jobCondition(job, 'Failed')
  if (pods.length === 0 || pods.some(hasRun)) {
    return failed(condition?.reason ?? 'Failed', condition?.message ?? 'The Job did not say why')
  }
  // Refused by the kubelet or never given an image: our trouble or the cluster's, never the media's.
  const why = pods.map((p) => p.status?.message ?? p.status?.reason).find((text) => text) ?? 'no pod says why'
  if (restartsForNothing(seen) >= MAX_RESTARTS) return failed('NeverStarted', `No attempt could start: ${why}`)
  return { ...pending('Retrying', `No attempt could start, beginning again with another Job: ${why}`), startOver: true }
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
    return running('Interrupted', `The cluster ended the pod, which counts as no attempt: ${reason}: ${message}`)
  }
  // The Job takes a moment to see that it is over. Until then nothing is said, least of all that it is tried again.
  if (attemptsOf(seen) >= resource.spec.maxAttempts || isLast(ended)) return isRunning
  const { reason = 'Failed', message = '' } = failureOf(ended) ?? {}
  return running('Retrying', `Attempt ${nthAttempt(seen)} failed: ${reason}: ${message}`)
}

/** A pod that somebody deletes leaves nothing behind but that its Job has counted it. */
function judgeVanished(seen: Evidence, job: Job): Verdict | undefined {
  if (vanishedFailures(job, seen.pods) === 0) return undefined
  if (attemptsOf(seen) >= seen.resource.spec.maxAttempts) return running('Running', 'The last attempt has ended')
  return running('Retrying', `Attempt ${nthAttempt(seen)} failed: its pod was deleted`)
}

/** Neither a failure nor over: it may well go on, and report, where the cluster cannot see it. */
function judgeUnheard(seen: Evidence, pod: Pod): Verdict | undefined {
  const since = unheardSince(pod)
  if (since === undefined) return undefined
  return running('NodeUnreachable', `The node of attempt ${nthAttempt(seen)} has not been heard of since ${since}`)
}
