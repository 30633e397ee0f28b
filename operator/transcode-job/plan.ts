import { type Condition, withCondition } from '../../crds/kind.ts'
import {
  isFinished,
  SUCCEEDED,
  succeededOf,
  type TranscodeJob,
  type TranscodeJobStatus,
} from '../../crds/transcode-job.ts'
import { attemptsOf } from './attempts.ts'
import { isJobFinished, isOwnedBy, type Job, type JobSpec, jobCondition, type Pod } from './batch.ts'
import { type ChildConfig, childJob, childName } from './child.ts'
import { lastEnded, outputsOf, resultOf } from './evidence.ts'
import { judge } from './judge.ts'
import { finalProgress, type ProgressFields } from './progress.ts'
import type { Verdict } from './verdict.ts'

/** Everything the decision depends on, gathered beforehand. */
export interface Observed {
  resource: TranscodeJob
  /** The Job with the name of the current one, whoever owns it. */
  job: Job | undefined
  /** Pods of that Job. */
  pods: readonly Pod[]
  /** Other Jobs of this resource. */
  leftovers: readonly Job[]
  config: ChildConfig
  now: Date
}

export interface PlannedEvent {
  type: 'Normal' | 'Warning'
  reason: string
  action: string
  note: string
}

/** What of a Job may be changed, and is. */
export type JobChange = Pick<JobSpec, 'suspend' | 'parallelism' | 'activeDeadlineSeconds' | 'ttlSecondsAfterFinished'>

/** Everything to do about it, in the order in which it is to be done. An empty plan means that all is as it should be. */
export interface Plan {
  createJob?: Job
  patchJob?: { name: string; spec: JobChange }
  /** Written before the final status, so that no one sees success below 100 percent. */
  progress?: ProgressFields
  status?: TranscodeJobStatus
  deleteJobs?: readonly Job[]
  deleteResource?: true
  events: PlannedEvent[]
  requeueAfterMs?: number
}

/** The number of the Job that works, or will work, on this resource. */
export const currentNumber = (resource: TranscodeJob): number => (resource.status?.restarts ?? 0) + 1

const JOB_TTL_SECONDS = { succeeded: 3600, failed: 86_400 } as const

/** Decides and does nothing. The same world gives the same plan, however often it is asked. */
export function plan(seen: Observed): Plan {
  const { resource, job, leftovers } = seen
  if (resource.metadata.deletionTimestamp) return { events: [] } // ownerReferences take the rest along
  if (isFinished(resource.status)) return planFinished(seen)

  const verdict = judge(seen)
  const status = statusFor(seen, verdict)
  const isFinal = verdict.status !== 'Unknown'
  const quietMs = quietFor(seen, verdict)
  const createJob = job ? undefined : childJob(resource, currentNumber(resource), seen.config)
  const gone = [...leftovers, ...((verdict.startOver || verdict.remake) && job ? [job] : [])]
  const change = changeOf(seen, verdict)
  return {
    ...(createJob && { createJob }),
    ...(job && change && { patchJob: { name: job.metadata.name, spec: change } }),
    ...(quietMs === 0 && words(seen, verdict, status)),
    ...(gone.length > 0 && { deleteJobs: gone }),
    events: eventsFor(resource, verdict),
    // What is left to do begins with the recorded status, and nothing else announces that: our own writes wake nobody.
    ...lookAgain(verdict.startOver || isFinal ? 1000 : quietMs || (verdict.learned ? 10 : verdict.lookAgainMs)),
  }
}

/** What to write about it: success together with its progress, unless that already belongs to another writer. */
function words(seen: Observed, verdict: Verdict, status: TranscodeJobStatus): Pick<Plan, 'progress' | 'status'> {
  const progress = verdict.status === 'True' ? successProgress(seen, status) : undefined
  if (!progress) return { status }
  return seen.resource.status?.progress ? { progress, status } : { status: { ...status, ...progress } }
}

/** Pods mostly start at once. Until so long after a resource was made, its waiting is not worth a write of its own. */
export const QUIET_MS = 3000

/**
 * How long to say nothing yet: only of a resource that has no status, and only that it is waiting for its first pod.
 * An age that cannot be, because clocks differ, is not waited for.
 */
function quietFor({ resource, now }: Observed, { reason }: Verdict): number {
  if (!QUIET.includes(reason) || resource.status?.conditions) return 0
  const { creationTimestamp = '', uid } = resource.metadata
  const age = now.getTime() - Date.parse(creationTimestamp) - withinItsSecond(uid)
  return age > -2000 && age < QUIET_MS ? QUIET_MS - age : 0
}

/**
 * The API server's times are whole seconds. Without the lost milliseconds, everything that was made within a second
 * would be written about at the same moment, and what is made just then would wait for all of it.
 */
const withinItsSecond = (uid: string): number => Number.parseInt(uid.slice(-4), 16) % 1000 || 0

const lookAgain = (requeueAfterMs: number | undefined) => (requeueAfterMs === undefined ? {} : { requeueAfterMs })

/** Over is over: status is never touched again. What a crash after the final write left undone is done here. */
function planFinished({ resource, job, leftovers, now }: Observed): Plan {
  const { spec, status } = resource
  const isSuccess = succeededOf(status)?.status === 'True'
  const progress = isSuccess ? finalProgress(resource, finalOf(status)) : undefined
  const endedAt = Date.parse(status?.completionTime ?? succeededOf(status)?.lastTransitionTime ?? '')
  const leftMs = endedAt + spec.ttlSecondsAfterFinished * 1000 - now.getTime()
  const isOurs = job !== undefined && isOwnedBy(job, resource.metadata.uid)
  const needsTtl = isOurs && isJobFinished(job) && job.spec.ttlSecondsAfterFinished === undefined
  const limit = isSuccess ? JOB_TTL_SECONDS.succeeded : JOB_TTL_SECONDS.failed
  const ttl = { ttlSecondsAfterFinished: Math.min(limit, spec.ttlSecondsAfterFinished) }
  return {
    ...(needsTtl && { patchJob: { name: job.metadata.name, spec: ttl } }),
    ...(progress && { progress }),
    ...(leftovers.length > 0 && { deleteJobs: leftovers }),
    ...(leftMs <= 0 ? { deleteResource: true } : { requeueAfterMs: leftMs }),
    events: [],
  }
}

/** What of the Job is not as it should be: because the resource was edited, or somebody edited the Job. */
function changeOf({ resource, job }: Observed, { endJob }: Verdict): JobChange | undefined {
  if (!job || isJobFinished(job) || !isOwnedBy(job, resource.metadata.uid)) return undefined
  const { suspend } = resource.spec
  const wanted: JobChange = {
    ...((job.spec.suspend ?? false) !== suspend && { suspend }),
    ...((job.spec.parallelism ?? 1) !== 1 && { parallelism: 1 }),
    ...(endJob && job.spec.activeDeadlineSeconds === undefined && { activeDeadlineSeconds: 1 }),
  }
  return Object.keys(wanted).length > 0 ? wanted : undefined
}

function statusFor(seen: Observed, verdict: Verdict): TranscodeJobStatus {
  const { resource, now } = seen
  const old = resource.status
  const observedGeneration = resource.metadata.generation ?? 0
  const { status, reason } = verdict
  const message = verdict.message.slice(0, 1024)
  const condition = { type: SUCCEEDED, status, reason, message, observedGeneration }
  const restarts = (old?.restarts ?? 0) + (verdict.startOver ? 1 : 0)
  const attempts = attemptsOf(seen)
  return {
    observedGeneration,
    phase: verdict.phase,
    conditions: withCondition(old?.conditions ?? [], condition, now),
    ...(reason !== 'NameTaken' && { jobName: childName(resource, restarts + 1) }),
    attempts,
    ...(restarts > 0 && { restarts }),
    ...learnedOf(old),
    ...verdict.learned,
    // No start before something ran: it would be worth a write of its own.
    ...((attempts > 0 || old?.startTime) && startOf(seen)),
    ...(status !== 'Unknown' && endOf(seen)),
  }
}

/** What the next Job depends on: whoever writes status must keep it. */
function learnedOf(status: TranscodeJobStatus | undefined): NonNullable<Verdict['learned']> {
  const { memory, gpuGivenUp } = status ?? {}
  return { ...(memory !== undefined && { memory }), ...(gpuGivenUp !== undefined && { gpuGivenUp }) }
}

function startOf({ resource, job }: Observed): Pick<TranscodeJobStatus, 'startTime'> {
  const startTime = resource.status?.startTime ?? job?.status?.startTime
  return startTime ? { startTime } : {}
}

function endOf({ resource, job, pods, now }: Observed): Pick<TranscodeJobStatus, 'completionTime' | 'outputs'> {
  const failed = job && jobCondition(job, 'Failed')
  const ended = job?.status?.completionTime ?? failed?.lastTransitionTime ?? now.toISOString()
  const outputs = outputsOf(resource, resultOf(lastEnded(pods)))
  return {
    completionTime: resource.status?.completionTime ?? ended,
    ...(outputs.length > 0 && { outputs }),
  }
}

const finalOf = (status: TranscodeJobStatus | undefined) => ({
  playable: (status?.outputs ?? []).filter((o) => o.state === 'Succeeded').map((o) => o.id),
  at: status?.completionTime ?? succeededOf(status)?.lastTransitionTime ?? '',
})

function successProgress({ resource, pods }: Observed, status: TranscodeJobStatus): ProgressFields | undefined {
  const { accelerator, acceleratorReason } = resultOf(lastEnded(pods)) ?? {}
  const used = { ...(accelerator && { accelerator }), ...(acceleratorReason && { acceleratorReason }) }
  return finalProgress(resource, { ...finalOf(status), ...used })
}

const QUIET = ['Creating', 'Queued']
const NORMAL = ['Running', 'Suspended', 'Succeeded']

/** Told as soon as it is true, whatever becomes of the status after it. */
export const jobCreated = ({ metadata }: Job): PlannedEvent => ({
  type: 'Normal',
  reason: 'JobCreated',
  action: 'CreateJob',
  note: `Created Job ${metadata.name}`,
})

/** One event per change of reason: repeating a plan repeats no event once its status has been written. */
function eventsFor(resource: TranscodeJob, verdict: Verdict): PlannedEvent[] {
  const events: PlannedEvent[] = []
  const { reason, message } = verdict
  const old = succeededOf(resource.status)?.reason
  if (old === 'Suspended' && !resource.spec.suspend && verdict.status === 'Unknown') {
    events.push({ type: 'Normal', reason: 'Resumed', action: 'ResumeJob', note: 'Resumed by spec.suspend' })
  }
  if (reason === old || QUIET.includes(reason) || (reason === 'Running' && isUneventful(old))) return events
  const type = NORMAL.includes(reason) ? 'Normal' : 'Warning'
  return [...events, { type, reason, action: 'Observe', note: message }]
}

/** That the first attempt runs is told by its pod and by status; after any trouble it is news. */
const isUneventful = (old: string | undefined) => old === undefined || QUIET.includes(old)

type Bare = Pick<TranscodeJob, 'metadata' | 'status'>
interface Finding {
  reason: string
  message: string
}

/** For a resource that its own schema refuses: it can never run, and its spec cannot change. */
export const refusal = (resource: Bare, finding: Finding, now: Date): TranscodeJobStatus => ({
  ...bareStatus(resource, 'False', finding, now),
  phase: 'Failed',
  completionTime: resource.status?.completionTime ?? now.toISOString(),
})

/** For trouble that is not the resource's: shown to people and never final, so that nothing is condemned by it. */
export const trouble = (resource: Bare, finding: Finding, now: Date): TranscodeJobStatus => ({
  ...bareStatus(resource, 'Unknown', finding, now),
  phase: 'Pending',
})

function bareStatus(resource: Bare, status: Condition['status'], { reason, message }: Finding, now: Date) {
  const { attempts, restarts, conditions = [] } = resource.status ?? {}
  const observedGeneration = resource.metadata.generation ?? 0
  const condition = { type: SUCCEEDED, status, reason, message: message.slice(0, 1024), observedGeneration }
  return {
    observedGeneration,
    conditions: withCondition(conditions, condition, now),
    ...(attempts !== undefined && { attempts }),
    ...(restarts !== undefined && { restarts }), // the number of the Job depends on it
    ...learnedOf(resource.status),
  }
}
