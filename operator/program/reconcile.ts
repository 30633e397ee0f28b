import { isFinished } from '../../crds/run.ts'
import { parseTranscodeJob, TRANSCODE_JOBS, type TranscodeJob } from '../../crds/transcode-job.ts'
import { type Cluster, isClusterError, type ObjectKey, PODS } from '../../lib/runtime/kube/cluster.ts'
import { isOwnedBy, type Job, type Pod } from '../jobs/batch.ts'
import type { Caches, RawTranscodeJob } from '../jobs/caches.ts'
import { isConclusive } from '../jobs/evidence.ts'
import { trimPod, trimResource } from '../jobs/trim.ts'
import type { Reconcile, Result } from '../runtime/controller.ts'
import type { EventRecorder } from '../runtime/events.ts'
import { type ChildConfig, childName, OUR_LABELS, OWNER_UID } from './child.ts'
import { currentNumber, jobCreated, type Observed, type Plan, plan, refusal, trouble } from './plan.ts'
import { type Writer, writerFor } from './writer.ts'

/** Retry interval after the API server rejected the Job: an administrator must fix the operator's configuration. */
const REJECTED_AGAIN_MS = 300_000
/** Retries in a row after a write that found the resource changed since it was read. */
const CONFLICTS = 5

export interface TranscodeJobDeps {
  cluster: Pick<Cluster, 'get' | 'list' | 'create' | 'patch' | 'applyStatus' | 'delete'>
  caches: Pick<Caches, 'resources' | 'written' | 'jobs' | 'jobsOf' | 'podsOf'>
  config: ChildConfig
  events: EventRecorder
  /** False as soon as another process may be leading. */
  mayWrite(): boolean
  now(): Date
}

/**
 * observe → plan → apply. Every step may be repeated: names are fixed, status is derived and never incremented, writes
 * are guarded by uid or version. After an error the key is requeued with backoff.
 */
export function reconcileTranscodeJob(deps: TranscodeJobDeps): Reconcile {
  const { cluster, caches, config, events, now } = deps

  return async (key: ObjectKey, signal: AbortSignal) => {
    const cached = caches.resources.get(key)
    if (!cached) return undefined // deleted: the garbage collector removes Job and pods
    const check = () => {
      // A process that was frozen, or that lost its lease, must not act on an old observation.
      signal.throwIfAborted()
      if (!deps.mayWrite()) throw new Error('no longer the leader')
    }
    let object = caches.written.freshest(cached)
    for (let left = CONFLICTS; ; left--) {
      try {
        return await reconcileOnce(object, check)
      } catch (error) {
        if (left === 0 || !isClusterError(error, 'Conflict')) throw error
        object = await readAgain(key, object, error)
      }
    }
  }

  /** Reads the resource directly: while a user edits it often, the cache would lag behind on every retry. */
  async function readAgain(key: ObjectKey, { metadata }: RawTranscodeJob, conflict: unknown): Promise<RawTranscodeJob> {
    const fresh = await cluster.get<RawTranscodeJob>(TRANSCODE_JOBS, key)
    if (fresh?.metadata.uid !== metadata.uid) throw conflict // deleted or re-created: the cache will report it
    return trimResource(fresh as RawTranscodeJob)
  }

  async function reconcileOnce(object: RawTranscodeJob, check: () => void): Promise<Result | undefined> {
    const writer = writerFor(object, { cluster, written: caches.written, check })
    const parsed = parseTranscodeJob(object)
    if ('resource' in parsed) return bringAbout(object, parsed.resource, writer)
    if (!isFinished(object.status)) {
      const finding = { reason: 'InvalidSpec', message: parsed.problem }
      await writer.writeStatus(refusal(object as TranscodeJob, finding, now()))
    }
    return undefined
  }

  async function bringAbout(object: RawTranscodeJob, resource: TranscodeJob, writer: Writer): Promise<Result> {
    const seen = await observe(resource)
    const next = plan(seen)
    if (!next.createJob) return apply(object, next, writer)
    let existing: Job | undefined
    try {
      existing = await writer.createJob(next.createJob)
    } catch (error) {
      return jobRefused(seen, error, writer)
    }
    if (!existing) {
      events.record(object, jobCreated(next.createJob))
      return apply(object, next, writer)
    }
    // The Job is this resource's, not yet in the cache, or another object's: the plan distinguishes them.
    const again = plan({ ...seen, job: existing, pods: await podsOf(resource, existing) })
    return apply(object, again, writer)
  }

  async function observe(resource: TranscodeJob): Promise<Observed> {
    const { namespace, uid } = resource.metadata
    const name = childName(resource, currentNumber(resource))
    const job = caches.jobs.get({ namespace, name })
    const leftovers = caches.jobsOf(uid).filter((j) => j.metadata.name !== name && isOwnedBy(j, uid))
    return { resource, job, pods: await podsOf(resource, job), leftovers, config, now: now() }
  }

  /**
   * The pods of this Job only: a pod of an earlier Job with the same name may still be ending. Where the cache is not
   * conclusive, the verdict could be wrong and final, so the pods are read from the API server.
   */
  async function podsOf(resource: TranscodeJob, job: Job | undefined): Promise<Pod[]> {
    const jobUid = job?.metadata.uid
    if (!job || !jobUid) return []
    const mine = (pods: Pod[]) => pods.filter((p) => isOwnedBy(p, jobUid))
    const known = mine(caches.podsOf(resource.metadata.uid))
    if (isFinished(resource.status) || isConclusive(resource, job, known, now())) return known
    const { namespace, uid } = resource.metadata
    const labelSelector = `${OUR_LABELS},${OWNER_UID}=${uid}`
    return mine((await cluster.list<Pod>(PODS, { namespace, labelSelector })).map(trimPod))
  }

  async function apply(object: RawTranscodeJob, next: Plan, writer: Writer): Promise<Result> {
    const isRecorded = await carryOut(next, writer)
    if (isRecorded) for (const event of next.events) events.record(object, event)
    return next.requeueAfterMs === undefined ? {} : { requeueAfterMs: next.requeueAfterMs }
  }

  async function jobRefused({ resource }: Observed, error: unknown, writer: Writer): Promise<Result> {
    const isRejected = isClusterError(error, 'Invalid')
    if (!isRejected && !isClusterError(error, 'Forbidden')) throw error
    const finding = { reason: isRejected ? 'JobRejected' : 'JobForbidden', message: error.message }
    await writer.writeStatus(trouble(resource, finding, now()))
    if (!isRejected) throw error // a quota: a retry may succeed soon
    return { requeueAfterMs: REJECTED_AGAIN_MS }
  }
}

/** Applies a plan in its order: later writes rely on earlier ones. True when a new status was recorded. */
async function carryOut(next: Plan, writer: Writer): Promise<boolean> {
  if (next.patchJob) await writer.patchJob(next.patchJob)
  if (next.progress) await writer.writeProgress(next.progress)
  const isRecorded = next.status !== undefined && (await writer.writeStatus(next.status))
  for (const job of next.deleteJobs ?? []) await writer.deleteJob(job)
  if (next.deleteResource) await writer.deleteResource()
  return isRecorded
}
