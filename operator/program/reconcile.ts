import { isFinished, type Run } from '../../crds/run.ts'
import { type Cluster, ClusterError, isClusterError, type ObjectKey } from '../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { Job } from '../jobs/batch.ts'
import type { JobCaches } from '../jobs/caches.ts'
import { trimResource } from '../jobs/trim.ts'
import type { Reconcile, Result } from '../runtime/controller.ts'
import type { EventRecorder } from '../runtime/events.ts'
import type { ProgramConfig } from './child.ts'
import { helpersCreated, helpersRefused, jobCreated } from './events.ts'
import type { ProgramKind, RawResource } from './kind.ts'
import { observer } from './observe.ts'
import type { Observed } from './observed.ts'
import { type Plan, plan } from './plan.ts'
import { RefusedHelpers } from './refused-helpers.ts'
import type { ResourceCache } from './resources.ts'
import { notUnderstood, trouble } from './status.ts'
import { type Writer, writerFor } from './writer.ts'

/** Retry interval after the API server rejected the Job: an administrator must fix the operator's configuration. */
const REJECTED_AGAIN_MS = 300_000
/** Retries in a row after a write that found the resource changed since it was read. */
const CONFLICTS = 5

export interface ReconcileDeps {
  kind: ProgramKind
  cluster: Pick<Cluster, 'get' | 'list' | 'create' | 'patch' | 'applyStatus' | 'delete'>
  caches: Pick<ResourceCache, 'resources' | 'written'> & Pick<JobCaches, 'jobs' | 'jobsOf' | 'helpersOf' | 'podsOf'>
  config: ProgramConfig
  events: EventRecorder
  log: Log
  /** False as soon as another process may be leading. */
  mayWrite(): boolean
  /** Since when this process leads. */
  leadingSince(): Date
  now(): Date
}

/**
 * observe → plan → apply. Every step may be repeated: names are fixed, status is derived and never incremented, writes
 * are guarded by uid or version. After an error the key is requeued with backoff.
 */
export function reconcileProgram(deps: ReconcileDeps): Reconcile {
  const { kind, cluster, caches, events, log, now } = deps
  const { observe, observeWith, readFormerJob } = observer(deps)
  // Its Job and its pods change several times while the resource does not. Objects are never changed in place.
  const parsedOf = new WeakMap<RawResource, ReturnType<typeof kind.parse>>()
  const refusedHelpers = new RefusedHelpers()

  return async (key: ObjectKey, signal: AbortSignal, isLast = true) => {
    const cached = caches.resources.get(key)
    if (!cached) return void refusedHelpers.forget(nameOf(key)) // deleted: the garbage collector removes Job and pods
    const check = () => {
      // A process that was frozen, or that lost its lease, must not act on an old observation.
      signal.throwIfAborted()
      if (!deps.mayWrite()) throw new Error('no longer the leader')
    }
    let object = caches.written.freshest(cached)
    for (let left = CONFLICTS; ; left--) {
      try {
        return await reconcileOnce(object, check, !isLast)
      } catch (error) {
        if (left === 0 || !isClusterError(error, 'Conflict')) throw error
        object = await readAgain(key, object, error)
      }
    }
  }

  /** Reads the resource directly: while a user edits it often, the cache would lag behind on every retry. */
  async function readAgain(key: ObjectKey, { metadata }: RawResource, conflict: unknown): Promise<RawResource> {
    const fresh = await cluster.get<RawResource>(kind.resource, key)
    if (fresh?.metadata.uid !== metadata.uid) throw conflict // deleted or re-created: the cache will report it
    return trimResource(fresh as RawResource)
  }

  async function reconcileOnce(object: RawResource, check: () => void, isUrgent: boolean): Promise<Result | undefined> {
    const writer = writerFor(kind, object, { cluster, written: caches.written, check })
    const parsed = parsedOf.get(object) ?? kind.parse(object)
    parsedOf.set(object, parsed)
    if ('resource' in parsed) return bringAbout(object, parsed.resource, writer, isUrgent)
    // Not looked at again by this process, which will not learn more: the next leader looks at every resource.
    if (!isFinished(object.status)) await writer.writeStatus(notUnderstood(object as Run, parsed.problem, now()))
    return undefined
  }

  async function bringAbout(object: RawResource, resource: Run, writer: Writer, isUrgent: boolean): Promise<Result> {
    const helpersNotBefore = refusedHelpers.notBefore(nameOf(resource.metadata))
    const seen = { ...(await observe(resource)), isUrgent, helpersNotBefore }
    const next = plan(seen)
    if (!next.createJob) return apply(object, next, writer)
    for (const job of next.deleteFirst ?? []) await writer.deleteJob(job)
    let existing = await readFormerJob(resource)
    try {
      existing ??= await writer.createJob(next.createJob)
    } catch (error) {
      return jobRefused(seen, error, writer)
    }
    if (!existing) {
      events.record(object, jobCreated(next.createJob))
      return apply(object, next, writer)
    }
    // The Job is this resource's, not yet in the cache, or another object's: the plan distinguishes them.
    return apply(object, plan(await observeWith(seen, existing)), writer)
  }

  async function apply(object: RawResource, next: Plan, writer: Writer): Promise<Result> {
    const isRecorded = await carryOut(next, writer)
    if (isRecorded) for (const event of next.events) events.record(object, event)
    const againMs = next.createHelpers && (await createHelpers(object, next.createHelpers, writer))
    const { requeueAfterMs = againMs, requeueLast } = next
    return { ...(requeueAfterMs !== undefined && { requeueAfterMs }), ...(requeueLast && { requeueLast }) }
  }

  /** Whatever the API server answers, the resource goes on without them. Returns when to try again, if at all. */
  async function createHelpers(object: RawResource, job: Job, writer: Writer): Promise<number | undefined> {
    const resource = nameOf(object.metadata)
    try {
      await writer.createHelpers(job)
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error
      log.warn({ err: error, object: resource, job: job.metadata.name }, 'helpers not created')
      const isRefused = error.reason === 'Forbidden' || error.reason === 'Invalid'
      if (isRefused) events.record(object, helpersRefused(error))
      return refusedHelpers.refused(resource, now())
    }
    refusedHelpers.forget(resource)
    events.record(object, helpersCreated(job))
    return undefined
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

const nameOf = ({ namespace, name }: { namespace?: string; name: string }) => `${namespace}/${name}`
