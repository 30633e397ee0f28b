import { type Condition, withCondition } from '../../crds/kind.ts'
import { isFinished, type RunStatus, SUCCEEDED, succeededOf } from '../../crds/run.ts'
import type { TranscodeJob } from '../../crds/transcode-job.ts'
import { attemptsOf } from '../jobs/attempts.ts'
import { isJobFinished, isOwnedBy, type Job, type JobSpec, jobCondition, type Pod } from '../jobs/batch.ts'
import { endingAnnotation, endingOf } from '../jobs/ending.ts'
import { lastEnded, outputsOf, resultOf } from '../jobs/evidence.ts'
import { type ChildConfig, childJob, childName } from './child.ts'
import { judge } from './judge.ts'
import { finalProgress, type ProgressFields } from './progress.ts'
import type { Verdict } from './verdict.ts'

/** All inputs of the decision. */
export interface Observed {
  resource: TranscodeJob
  /** The Job with the name of the current one, whatever its owner. */
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

/** The fields of a Job that the operator changes. */
export type JobChange = Pick<JobSpec, 'suspend' | 'parallelism' | 'activeDeadlineSeconds' | 'ttlSecondsAfterFinished'>

/** The actions to take, in the order of the fields. An empty plan means that nothing needs to change. */
export interface Plan {
  createJob?: Job
  patchJob?: { name: string; spec: JobChange; annotations?: Record<string, string> }
  /** Written before the final status, so that success is never visible below 100 percent. */
  progress?: ProgressFields
  status?: RunStatus
  deleteJobs?: readonly Job[]
  deleteResource?: true
  events: PlannedEvent[]
  requeueAfterMs?: number
}

/** The number of the resource's current Job. */
export const currentNumber = (resource: TranscodeJob): number => (resource.status?.restarts ?? 0) + 1

const JOB_TTL_SECONDS = { succeeded: 3600, failed: 86_400 } as const

/** Decides without acting. The same observation always gives the same plan. */
export function plan(seen: Observed): Plan {
  const { resource, job, leftovers } = seen
  if (resource.metadata.deletionTimestamp) return { events: [] } // the garbage collector removes the Job
  if (isFinished(resource.status)) return planFinished(seen)

  const verdict = judge(seen)
  const status = statusFor(seen, verdict)
  const isFinal = verdict.status !== 'Unknown'
  const quietMs = quietFor(seen, verdict)
  const createJob = job ? undefined : childJob(resource, currentNumber(resource), seen.config)
  const gone = [...leftovers, ...((verdict.startOver || verdict.remake) && job ? [job] : [])]
  const patchJob = patchOf(seen, verdict)
  return {
    ...(createJob && { createJob }),
    ...(patchJob && { patchJob }),
    ...(quietMs === 0 && words(seen, verdict, status)),
    ...(gone.length > 0 && { deleteJobs: gone }),
    events: eventsFor(resource, verdict),
    // The next step needs the recorded status, and the operator's own writes trigger no reconcile, so requeue here.
    ...lookAgain(verdict.startOver || isFinal ? 1000 : quietMs || (verdict.learned ? 10 : verdict.lookAgainMs)),
  }
}

/** The status writes: progress and success in one write, unless the progress field manager owns progress already. */
function words(seen: Observed, verdict: Verdict, status: RunStatus): Pick<Plan, 'progress' | 'status'> {
  const progress = verdict.status === 'True' ? successProgress(seen, status) : undefined
  if (!progress) return { status }
  return seen.resource.status?.progress ? { progress, status } : { status: { ...status, ...progress } }
}

/** Most pods start soon. For this long after a resource's creation, its waiting is not worth a status write. */
export const QUIET_MS = 3000

/**
 * Milliseconds to defer the status: only for a resource without a status that waits for its first pod. An impossible
 * age, caused by clocks that differ, is not deferred.
 */
function quietFor({ resource, now }: Observed, { reason }: Verdict): number {
  if (!QUIET.includes(reason) || resource.status?.conditions) return 0
  const { creationTimestamp = '', uid } = resource.metadata
  const age = now.getTime() - Date.parse(creationTimestamp) - withinItsSecond(uid)
  return age > -2000 && age < QUIET_MS ? QUIET_MS - age : 0
}

/**
 * The API server's times are whole seconds. This adds pseudo-random milliseconds; without them, the status of all
 * resources created within a second would be written at the same moment and delay new resources.
 */
const withinItsSecond = (uid: string): number => Number.parseInt(uid.slice(-4), 16) % 1000 || 0

const lookAgain = (requeueAfterMs: number | undefined) => (requeueAfterMs === undefined ? {} : { requeueAfterMs })

/** A final status never changes again. Finishes the steps that a crash after the final write left undone. */
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

/** The changes that the Job needs because the resource, or the Job itself, was edited, or because it must end. */
function patchOf(seen: Observed, verdict: Verdict): Plan['patchJob'] {
  const { resource, job } = seen
  if (!job || isJobFinished(job) || !isOwnedBy(job, resource.metadata.uid)) return undefined
  const { suspend } = resource.spec
  const annotations = endingFor(seen, verdict)
  const spec: JobChange = {
    ...((job.spec.suspend ?? false) !== suspend && { suspend }),
    ...((job.spec.parallelism ?? 1) !== 1 && { parallelism: 1 }),
    ...(annotations && { activeDeadlineSeconds: 1 }),
  }
  if (Object.keys(spec).length === 0) return undefined
  return { name: job.metadata.name, spec, ...(annotations && { annotations }) }
}

/** The annotation that goes with the end of the Job; undefined when the Job needs no end, or is ending. */
function endingFor(seen: Observed, { endJob, reason, message }: Verdict): Record<string, string> | undefined {
  const { job } = seen
  if (!endJob || (job && endingOf(job) && job.spec.activeDeadlineSeconds !== undefined)) return undefined
  return endingAnnotation({ next: endJob, reason, message: message.slice(0, 1024), attempts: attemptsOf(seen) })
}

function statusFor(seen: Observed, verdict: Verdict): RunStatus {
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
    // No startTime before the first attempt, because it would cost a write of its own.
    ...((attempts > 0 || old?.startTime) && startOf(seen)),
    ...(status !== 'Unknown' && endOf(seen)),
  }
}

/** Status fields that the next Job depends on; every status write must keep them. */
function learnedOf(status: RunStatus | undefined): NonNullable<Verdict['learned']> {
  const { memory, gpuGivenUp } = status ?? {}
  return { ...(memory !== undefined && { memory }), ...(gpuGivenUp !== undefined && { gpuGivenUp }) }
}

function startOf({ resource, job }: Observed): Pick<RunStatus, 'startTime'> {
  const startTime = resource.status?.startTime ?? job?.status?.startTime
  return startTime ? { startTime } : {}
}

function endOf({ resource, job, pods, now }: Observed): Pick<RunStatus, 'completionTime' | 'outputs'> {
  const failed = job && jobCondition(job, 'Failed')
  const ended = job?.status?.completionTime ?? failed?.lastTransitionTime ?? now.toISOString()
  const outputs = outputsOf(resource, resultOf(lastEnded(pods)))
  return {
    completionTime: resource.status?.completionTime ?? ended,
    ...(outputs.length > 0 && { outputs }),
  }
}

const finalOf = (status: RunStatus | undefined) => ({
  playable: (status?.outputs ?? []).filter((o) => o.state === 'Succeeded').map((o) => o.id),
  at: status?.completionTime ?? succeededOf(status)?.lastTransitionTime ?? '',
})

function successProgress({ resource, pods }: Observed, status: RunStatus): ProgressFields | undefined {
  const { accelerator, acceleratorReason } = resultOf(lastEnded(pods)) ?? {}
  const used = { ...(accelerator && { accelerator }), ...(acceleratorReason && { acceleratorReason }) }
  return finalProgress(resource, { ...finalOf(status), ...used })
}

const QUIET = ['Creating', 'Queued']
const NORMAL = ['Running', 'Suspended', 'Succeeded']

/** Recorded right after the creation, whether or not the following status write succeeds. */
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

/** The start of the first attempt needs no event: the pod has one. After a problem, running again is an event. */
const isUneventful = (old: string | undefined) => old === undefined || QUIET.includes(old)

type Bare = Pick<TranscodeJob, 'metadata' | 'status'>
interface Finding {
  reason: string
  message: string
}

/** The final status of a resource with an invalid spec: the spec is immutable, so it can never run. */
export const refusal = (resource: Bare, finding: Finding, now: Date): RunStatus => ({
  ...bareStatus(resource, 'False', finding, now),
  phase: 'Failed',
  completionTime: resource.status?.completionTime ?? now.toISOString(),
})

/** The status for a problem that the resource did not cause: visible but never final, so that no media item fails. */
export const trouble = (resource: Bare, finding: Finding, now: Date): RunStatus => ({
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
