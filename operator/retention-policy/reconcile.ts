import { RETENTION_POLICIES, type RunRecord } from '../../crds/retention-policy.ts'
import type { RetentionTarget } from '../../crds/retention-rules.ts'
import { type Cluster, isClusterError, type ObjectKey } from '../../lib/runtime/kube/cluster.ts'
import type { Reconcile, Result } from '../runtime/controller.ts'
import type { EventRecorder } from '../runtime/events.ts'
import { FINALIZER, type ObserverDeps, observer } from './observe.ts'
import { type Plan, planRetention, type Seen } from './plan.ts'
import { type RawPolicy, trimPolicy } from './resources.ts'
import { jobOf, type RunStart } from './run.ts'
import { digestOf, type PodTemplate } from './template.ts'
import { type Writer, writerFor } from './writer.ts'

/** Retries in a row after a write that found the policy changed since it was read. */
const CONFLICTS = 5

export interface ReconcileDeps {
  cluster: Pick<Cluster, 'get' | 'list' | 'create' | 'patch' | 'applyStatus' | 'delete'>
  caches: ObserverDeps['caches']
  /** The pods of runs; without it no run starts. */
  template: PodTemplate | undefined
  events: EventRecorder
  /** Called once for every run whose end was recorded. */
  onRecorded?(target: RetentionTarget, run: RunRecord): void
  /** False as soon as another process may be leading. */
  mayWrite(): boolean
  now(): Date
}

/**
 * observe → plan → apply. Every step may be repeated: a slot has one name, status is derived, writes are guarded by uid
 * or version. After an error the key is requeued with backoff.
 */
export function reconcileRetention(deps: ReconcileDeps): Reconcile {
  const { cluster, caches, template, events } = deps
  const { observe } = observer({ ...deps, template: template && digestOf(template) })

  return async (key: ObjectKey, signal: AbortSignal) => {
    const cached = caches.policies.get(key)
    if (!cached) return undefined // gone; the garbage collector removes its Jobs
    const check = () => {
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

  async function readAgain(key: ObjectKey, { metadata }: RawPolicy, conflict: unknown): Promise<RawPolicy> {
    const fresh = await cluster.get<RawPolicy>(RETENTION_POLICIES, key)
    if (fresh?.metadata.uid !== metadata.uid) throw conflict // deleted or re-created: the cache will report it
    return trimPolicy(fresh as RawPolicy)
  }

  async function reconcileOnce(object: RawPolicy, check: () => void): Promise<Result | undefined> {
    const writer = writerFor(object, { cluster, written: caches.written, check })
    let seen = await observe(object)
    let plan = planRetention(seen)
    if (plan.addFinalizer && !(await writer.setFinalizers((all) => [...all, FINALIZER]))) return undefined
    if (plan.start) {
      seen = await observe(object, true)
      const { start } = planRetention(seen)
      if (start) seen = await startRun(object, seen, start, writer)
      plan = planRetention(seen)
    }
    return apply(object, seen, plan, writer)
  }

  /** What is seen after the Job was created, also by an earlier attempt of this process or another one: nothing of it yet. */
  async function startRun(object: RawPolicy, seen: Seen, start: RunStart, writer: Writer): Promise<Seen> {
    if (!template) return seen
    try {
      const made = await writer.createJob(jobOf(seen.policy, start, template))
      if (made?.isNew) {
        const note = `Started run ${start.name}`
        events.record(object, { type: 'Normal', reason: 'RunStarted', action: 'Run', note })
      }
      if (made) return { ...seen, jobs: [...seen.jobs, made.job], pods: [], result: undefined }
      const message = `Another object owns the Job ${start.name}, which the run would have`
      return { ...seen, refusal: { reason: 'NameTaken', message } }
    } catch (error) {
      // A quota, a policy, or a template that the API server does not accept: an administrator has to see it.
      const isRejected = isClusterError(error, 'Invalid')
      if (!isRejected && !isClusterError(error, 'Forbidden')) throw error
      return { ...seen, refusal: { reason: isRejected ? 'JobRejected' : 'JobForbidden', message: error.message } }
    }
  }

  /** In this order: what a later step forgets must have been recorded by an earlier one. */
  async function apply(object: RawPolicy, seen: Seen, plan: Plan, writer: Writer): Promise<Result> {
    if (plan.suspend) await writer.patchJob(plan.suspend, { suspend: true })
    await record(object, seen, plan, writer)
    for (const { job, seconds } of plan.expire) await writer.patchJob(job, { ttlSecondsAfterFinished: seconds })
    for (const job of plan.remove) await writer.deleteJob(job)
    for (const job of [...plan.expire.map((e) => e.job), ...plan.remove]) caches.forgetResult(job.metadata.uid ?? '')
    if (plan.removeFinalizer) await writer.setFinalizers((all) => all.filter((f) => f !== FINALIZER))
    return plan.requeueAfterMs === undefined ? {} : { requeueAfterMs: plan.requeueAfterMs }
  }

  async function record(object: RawPolicy, seen: Seen, plan: Plan, writer: Writer): Promise<void> {
    if (plan.status === undefined || !(await writer.writeStatus(plan.status))) return
    for (const event of plan.events) events.record(object, event)
    for (const run of plan.recorded) deps.onRecorded?.(seen.policy.spec.target, run)
  }
}
