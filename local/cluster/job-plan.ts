import { hasFailedIndexes, type Indexes, indexesIn, indexesOf, missing } from './job-indexes.ts'
import { judgePod } from './pod-failure-policy.ts'
import {
  conditionIn,
  isTerminal,
  JOB_TRACKING,
  type Job,
  type JobStatus,
  type ObjectCondition,
  type Pod,
  SUSPENDED,
  setCondition,
  timeOf,
} from './types.ts'

export interface JobSeen {
  job: Job
  /** The pods of this Job's uid in any state. */
  pods: readonly Pod[]
  nowMs: number
  /** When the last attempt that counts failed. */
  lastFailureMs: number | undefined
  backoffBaseMs: number
}

export interface JobPlan {
  status: JobStatus
  /** How many pods to create now. */
  create: number
  /** Of an Indexed Job: their indexes. */
  indexes?: readonly number[]
  remove: Pod[]
  /** Mark the pods to remove as SUSPENDED, so that their end does not count as a failure. */
  isSuspending: boolean
  /** Pods whose finalizer can be removed: they are counted, or never will be. */
  release: Pod[]
  /** An attempt was counted as failed in this plan. */
  hasNewFailure: boolean
  /** The Job has finished and its time to live has passed. */
  isExpired: boolean
  /** When to plan again even if nothing changes. */
  wakeInMs: number | undefined
}

interface Verdict {
  type: 'Failed' | 'Complete'
  reason: string
  message: string
}

const MAX_BACKOFF_STEPS = 6

/** What the Job controller of Kubernetes would do next. Total and pure: the same input gives the same plan. */
export function planJob(seen: JobSeen): JobPlan {
  const { job, pods, nowMs } = seen
  const uncounted = pods.filter((pod) => isTerminal(pod) && isTracked(pod))
  if (isFinished(job)) return planFinished(job, pods, nowMs)

  const indexes = indexesOf(job, pods)
  const counts = count(job, uncounted, indexes)
  const running = pods.filter((pod) => !isTerminal(pod))
  const active = running.filter((pod) => !pod.metadata.deletionTimestamp)
  const terminating = running.length - active.length
  const status = started(job, nowMs)
  const verdict = verdictOf(job, status, { ...counts, active: active.length, indexes }, nowMs)
  const base = { release: uncounted, hasNewFailure: counts.newFailures > 0, isExpired: false, isSuspending: false }
  const withCounts = (activeNow: number, conditions: ObjectCondition[] | undefined): JobStatus =>
    compact({
      ...status,
      ...indexesIn(indexes),
      conditions,
      active: activeNow,
      ready: active.filter((pod) => conditionIn(pod.status?.conditions, 'Ready')?.status === 'True').length,
      terminating,
      succeeded: counts.succeeded,
      failed: counts.failed,
    })

  if (verdict) {
    const conditions = judged(status.conditions, verdict, running.length === 0, nowMs)
    const ended = verdict.type === 'Complete' && running.length === 0 && { completionTime: timeOf(nowMs) }
    const next = { ...withCounts(active.length, conditions), ...ended }
    return { ...base, status: next, create: 0, remove: active, wakeInMs: undefined }
  }
  if (job.spec.suspend) {
    const conditions = suspended(status.conditions, nowMs)
    // Released at once, so that an attempt that ends because of the suspension does not count as a failure.
    const release = [...uncounted, ...running.filter(isTracked)]
    return {
      ...base,
      release,
      status: withCounts(active.length, conditions),
      create: 0,
      remove: active,
      wakeInMs: undefined,
    }
  }
  const { wanted, create, backoffMs, indexes: next } = missingPods(seen, counts, indexes, { running, active })
  const wakeInMs = earliest(create < wanted ? backoffMs : undefined, remainingDeadline(job, status, nowMs))
  const now = withCounts(active.length + create, status.conditions)
  return { ...base, status: now, create, ...(next && { indexes: next }), remove: [], wakeInMs }
}

interface Living {
  running: readonly Pod[]
  active: readonly Pod[]
}

/** Pods that are wanted, and those of them that need not wait. An index waits for its own failures alone. */
function missingPods(seen: JobSeen, counts: Counts, indexes: Indexes | undefined, { running, active }: Living) {
  const { job } = seen
  const blocking = job.spec.podReplacementPolicy === 'Failed' ? running : active
  const free = Math.max(0, wantedPods(job, counts) - blocking.length)
  if (!indexes) {
    const backoffMs = remainingBackoff(seen, counts.failed, counts.newFailures)
    return { wanted: free, create: backoffMs > 0 ? 0 : free, backoffMs, indexes: undefined }
  }
  const failed = Math.max(0, ...indexes.failures.values())
  const backoffMs = remainingBackoff(seen, failed, counts.newFailures)
  const wanted = missing(job, indexes, blocking).slice(0, free)
  const ready = wanted.filter((i) => backoffMs <= 0 || !indexes.failures.has(i))
  return { wanted: wanted.length, create: ready.length, backoffMs, indexes: ready }
}

/** How many pods should be there. A work queue is empty when a pod has succeeded: no others are added then. */
function wantedPods({ spec: { parallelism, completions } }: Job, { succeeded }: Counts): number {
  if (completions === undefined) return succeeded > 0 ? 0 : parallelism
  return Math.min(parallelism, completions - succeeded)
}

const isFinished = (job: Job) =>
  ['Complete', 'Failed'].some((type) => conditionIn(job.status?.conditions, type)?.status === 'True')
const isTracked = (pod: Pod) => pod.metadata.finalizers?.includes(JOB_TRACKING) ?? false

function planFinished(job: Job, pods: readonly Pod[], nowMs: number): JobPlan {
  const ttl = job.spec.ttlSecondsAfterFinished
  const end = job.status?.conditions?.find((c) => ['Complete', 'Failed'].includes(c.type))?.lastTransitionTime
  const leftMs = ttl === undefined ? undefined : Date.parse(end ?? '') + ttl * 1000 - nowMs
  return {
    status: job.status ?? {},
    create: 0,
    remove: pods.filter((pod) => !isTerminal(pod) && !pod.metadata.deletionTimestamp),
    release: pods.filter(isTracked),
    hasNewFailure: false,
    isSuspending: false,
    isExpired: leftMs !== undefined && leftMs <= 0,
    wakeInMs: leftMs !== undefined && leftMs > 0 ? leftMs : undefined,
  }
}

interface Counts {
  succeeded: number
  failed: number
  newFailures: number
  policyFailure: string | undefined
}

function count(job: Job, uncounted: readonly Pod[], indexes: Indexes | undefined): Counts {
  const counts: Counts = {
    succeeded: job.status?.succeeded ?? 0,
    failed: job.status?.failed ?? 0,
    newFailures: 0,
    policyFailure: undefined,
  }
  for (const pod of uncounted) {
    if (pod.status?.phase === 'Succeeded') {
      counts.succeeded += 1
      continue
    }
    if (pod.metadata.annotations?.[SUSPENDED]) continue
    const { action, message } = judgePod(job.spec.podFailurePolicy?.rules ?? [], pod)
    if (action === 'Ignore') continue
    counts.failed += 1
    counts.newFailures += 1
    if (action === 'FailJob') counts.policyFailure ??= message
  }
  if (indexes) counts.succeeded = indexes.completed.size
  return counts
}

/** In the order of precedence. A verdict that was announced is never changed. */
function verdictOf(
  job: Job,
  status: JobStatus,
  counts: Counts & { active: number; indexes: Indexes | undefined },
  nowMs: number,
): Verdict | undefined {
  const announced = conditionIn(status.conditions, 'FailureTarget')
  if (announced) return { type: 'Failed', reason: announced.reason ?? '', message: announced.message ?? '' }
  if (conditionIn(status.conditions, 'SuccessCriteriaMet') || isComplete(job, counts)) {
    return { type: 'Complete', reason: 'CompletionsReached', message: 'Reached expected number of succeeded pods' }
  }
  if (counts.policyFailure) return { type: 'Failed', reason: 'PodFailurePolicy', message: counts.policyFailure }
  if (hasFailedIndexes(job, counts.indexes)) {
    return { type: 'Failed', reason: 'FailedIndexes', message: 'Job has failed indexes' }
  }
  if (counts.failed > job.spec.backoffLimit) {
    const message = 'Job has reached the specified backoff limit'
    return { type: 'Failed', reason: 'BackoffLimitExceeded', message }
  }
  const leftMs = job.spec.suspend ? undefined : remainingDeadline(job, status, nowMs)
  if (leftMs !== undefined && leftMs <= 0) {
    return { type: 'Failed', reason: 'DeadlineExceeded', message: 'Job was active longer than specified deadline' }
  }
  return undefined
}

/** A work queue is complete when a pod has succeeded and the others have ended, however they did. */
const isComplete = ({ spec: { completions } }: Job, { succeeded, active }: Counts & { active: number }): boolean =>
  completions === undefined ? succeeded > 0 && active === 0 : succeeded >= completions

/** A verdict is announced at once, and final when no pod runs any more. */
function judged(
  list: readonly ObjectCondition[] | undefined,
  { type, reason, message }: Verdict,
  isOver: boolean,
  nowMs: number,
): ObjectCondition[] {
  const announcement = type === 'Failed' ? 'FailureTarget' : 'SuccessCriteriaMet'
  const announced = setCondition(list, { type: announcement, status: 'True', reason, message }, nowMs)
  return isOver ? setCondition(announced, { type, status: 'True', reason, message }, nowMs) : announced
}

const suspended = (list: readonly ObjectCondition[] | undefined, nowMs: number) =>
  setCondition(list, { type: 'Suspended', status: 'True', reason: 'JobSuspended', message: 'Job suspended' }, nowMs)

/** A start, also one after a suspension, restarts the Job's deadline. */
function started(job: Job, nowMs: number): JobStatus {
  const status = job.status ?? {}
  if (job.spec.suspend) return status
  const resumed = conditionIn(status.conditions, 'Suspended')?.status === 'True'
  if (!resumed) return { ...status, startTime: status.startTime ?? timeOf(nowMs) }
  const condition = { type: 'Suspended', status: 'False', reason: 'JobResumed', message: 'Job resumed' } as const
  return { ...status, startTime: timeOf(nowMs), conditions: setCondition(status.conditions, condition, nowMs) }
}

function remainingDeadline(job: Job, status: JobStatus, nowMs: number): number | undefined {
  if (job.spec.activeDeadlineSeconds === undefined || status.startTime === undefined) return undefined
  return Date.parse(status.startTime) + job.spec.activeDeadlineSeconds * 1000 - nowMs
}

function remainingBackoff(
  { nowMs, lastFailureMs, backoffBaseMs }: JobSeen,
  failed: number,
  newFailures: number,
): number {
  if (failed === 0) return 0
  const since = newFailures > 0 ? 0 : nowMs - (lastFailureMs ?? 0)
  return backoffBaseMs * 2 ** Math.min(failed - 1, MAX_BACKOFF_STEPS) - since
}

const earliest = (...times: (number | undefined)[]): number | undefined => {
  const known = times.filter((t) => t !== undefined)
  return known.length > 0 ? Math.min(...known) : undefined
}

/** Zero counters are omitted, as by the API server, but for `ready` and `terminating`, which are pointers there. */
function compact(status: Omit<JobStatus, 'conditions'> & { conditions: ObjectCondition[] | undefined }): JobStatus {
  const { conditions, active, succeeded, failed, ...rest } = status
  return {
    ...rest,
    ...(conditions && { conditions }),
    ...(active && { active }),
    ...(succeeded && { succeeded }),
    ...(failed && { failed }),
  }
}
