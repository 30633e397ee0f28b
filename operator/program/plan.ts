import { isFinished, type RunStatus, succeededOf } from '../../crds/run.ts'
import { isJobFinished, isOwnedBy, type Job, type JobSpec } from '../jobs/batch.ts'
import { endingAnnotation, endingOf } from '../jobs/ending.ts'
import { isTelling } from '../jobs/evidence.ts'
import { JOB_TTL_SECONDS } from '../jobs/template.ts'
import { childJob } from './child.ts'
import { eventsFor, type PlannedEvent } from './events.ts'
import { helpersLeft, planHelpers } from './helpers.ts'
import { judge } from './judge.ts'
import { attemptsSoFar, type Observed } from './observed.ts'
import { finalProgress, type ProgressFields } from './progress.ts'
import { quietFor } from './quiet.ts'
import { currentNumber, finalOf, statusFor, successProgress } from './status.ts'
import type { Verdict } from './verdict.ts'

/** The fields of a Job that the operator changes. */
export type JobChange = Pick<JobSpec, 'suspend' | 'parallelism' | 'activeDeadlineSeconds' | 'ttlSecondsAfterFinished'>

/** The actions to take, in the order of the fields. An empty plan means that nothing needs to change. */
export interface Plan {
  /** Helpers of a Job that is gone: what they take may be what the next one needs. */
  deleteFirst?: readonly Job[]
  createJob?: Job
  patchJob?: { name: string; spec: JobChange; annotations?: Record<string, string> }
  /** Written before the final status, so that success is never visible below 100 percent. */
  progress?: ProgressFields
  status?: RunStatus
  deleteJobs?: readonly Job[]
  deleteResource?: true
  /** Last: nothing depends on them. */
  createHelpers?: Job
  events: PlannedEvent[]
  requeueAfterMs?: number
  /** The requeue waits behind everything that changes until then. */
  requeueLast?: true
}

/** Decides without acting. The same observation always gives the same plan. */
export function plan(observed: Observed): Plan {
  const seen = { ...observed, pods: observed.pods.filter(isTelling) }
  const { kind, resource, job, leftovers } = seen
  if (resource.metadata.deletionTimestamp) return { events: [] } // the garbage collector removes the Job
  if (isFinished(resource.status)) return planFinished(seen)

  const verdict = judge(seen)
  const status = statusFor(seen, verdict)
  const quietMs = quietFor(seen, verdict)
  const createJob = job ? undefined : childJob(kind, resource, currentNumber(resource), seen.config)
  const helpers = planHelpers(seen, verdict)
  const replaced = verdict.step?.do === 'replace' && job ? [job] : []
  const gone = [...leftovers, ...replaced, ...(createJob ? [] : helpers.remove)]
  const patchJob = patchOf(seen, verdict)
  return {
    ...(createJob && { ...(helpers.remove.length > 0 && { deleteFirst: helpers.remove }), createJob }),
    ...(patchJob && { patchJob }),
    ...(quietMs === 0 && statusWrites(seen, verdict, status)),
    ...(gone.length > 0 && { deleteJobs: gone }),
    ...(helpers.create && { createHelpers: helpers.create }),
    events: eventsFor(resource, verdict),
    ...sooner(requeue(verdict, quietMs), helpers.againMs),
  }
}

/** Success and progress in one write, unless the progress field manager owns progress already. */
function statusWrites(seen: Observed, verdict: Verdict, status: RunStatus): Pick<Plan, 'progress' | 'status'> {
  const progress = verdict.status === 'True' ? successProgress(seen, status) : undefined
  if (!progress) return { status }
  return seen.resource.status?.progress ? { progress, status } : { status: { ...status, ...progress } }
}

/** The next step needs what status now records, and the operator's own writes trigger no reconcile. */
const AFTER_RECORD_MS = 10
/** The final status and the end of a Job do trigger a reconcile. This one is for a change that went unnoticed. */
const AFTER_END_MS = 1000

function requeue({ status, step, lookAgainMs }: Verdict, quietMs: number): Requeue {
  if (status !== 'Unknown' || step?.do === 'replace') return { requeueAfterMs: AFTER_END_MS }
  if (quietMs > 0) return { requeueAfterMs: quietMs, requeueLast: true }
  if (step?.do === 'record') return { requeueAfterMs: AFTER_RECORD_MS }
  return lookAgainMs === undefined ? {} : { requeueAfterMs: lookAgainMs }
}

type Requeue = Pick<Plan, 'requeueAfterMs' | 'requeueLast'>

function sooner(planned: Requeue, againMs: number | undefined): Requeue {
  if (againMs === undefined || (planned.requeueAfterMs ?? Number.POSITIVE_INFINITY) <= againMs) return planned
  return { requeueAfterMs: againMs }
}

/** A final status never changes again. Finishes the steps that a crash after the final write left undone. */
function planFinished(seen: Observed): Plan {
  const { resource, job, now } = seen
  const { spec, status } = resource
  const isSuccess = succeededOf(status)?.status === 'True'
  const progress = isSuccess ? finalProgress(resource, finalOf(status)) : undefined
  const endedAt = Date.parse(status?.completionTime ?? succeededOf(status)?.lastTransitionTime ?? '')
  const leftMs = endedAt + spec.ttlSecondsAfterFinished * 1000 - now.getTime()
  const ttl = Math.min(JOB_TTL_SECONDS[isSuccess ? 'succeeded' : 'failed'], spec.ttlSecondsAfterFinished)
  const isOurs = job !== undefined && isOwnedBy(job, resource.metadata.uid)
  const gone = [...seen.leftovers, ...helpersLeft(seen)]
  const needsTtl = isOurs && isJobFinished(job) && isShorter(job.spec.ttlSecondsAfterFinished, ttl)
  return {
    ...(needsTtl && { patchJob: { name: job.metadata.name, spec: { ttlSecondsAfterFinished: ttl } } }),
    ...(progress && { progress }),
    ...(gone.length > 0 && { deleteJobs: gone }),
    ...(leftMs <= 0 ? { deleteResource: true } : { requeueAfterMs: leftMs }),
    events: [],
  }
}

/**
 * Whether the Job would go sooner than its outcome deserves: that of a failure, or one that an earlier operator created
 * without a time. A time that an administrator has set stays.
 */
const isShorter = (had: number | undefined, wanted: number): boolean =>
  had === undefined || (had === JOB_TTL_SECONDS.succeeded && had < wanted)

/** The changes that the Job needs because the resource, or the Job itself, was edited, or because it must end. */
function patchOf(seen: Observed, verdict: Verdict): Plan['patchJob'] {
  const { resource, job } = seen
  if (!job || isJobFinished(job) || !isOwnedBy(job, resource.metadata.uid)) return undefined
  const { suspend } = resource.spec
  const annotations = endingFor(seen, job, verdict)
  const spec: JobChange = {
    ...((job.spec.suspend ?? false) !== suspend && { suspend }),
    ...((job.spec.parallelism ?? 1) !== 1 && { parallelism: 1 }),
    ...(annotations && { activeDeadlineSeconds: 1 }),
  }
  if (Object.keys(spec).length === 0) return undefined
  return { name: job.metadata.name, spec, ...(annotations && { annotations }) }
}

/** The annotation that goes with the end of the Job; undefined when the Job needs no end, or is ending. */
function endingFor(seen: Observed, job: Job, { step, reason, message }: Verdict): Record<string, string> | undefined {
  if (step?.do !== 'end' || (endingOf(job) && job.spec.activeDeadlineSeconds !== undefined)) return undefined
  return endingAnnotation({ next: step.next, reason, message: message.slice(0, 1024), attempts: attemptsSoFar(seen) })
}
