import { isDeepStrictEqual } from 'node:util'
import { JOBS, PODS } from '../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { Container, PodSpec } from './batch-schemas.ts'
import { planJob } from './job-plan.ts'
import { randomSuffix } from './metadata.ts'
import type { Change, Store } from './store.ts'
import { COMPLETION_INDEX, CONTROLLER_UID, JOB_TRACKING, type Job, type Pod, SUSPENDED, timerMs } from './types.ts'

const RETRY_MS = 1000

/**
 * Creates the pods of Jobs and counts their results, as the Job controller of Kubernetes does: retries with backoff,
 * podFailurePolicy, deadlines, suspension, time to live. Level-based: it reconciles the whole Job after every change of
 * it and at every deadline.
 */
export function runJobController(
  store: Store,
  options: { backoffBaseMs: number; log: Log | undefined },
): { close(): void } {
  const due = new Set<string>()
  const alarms = new Map<string, NodeJS.Timeout>()
  const lastFailures = new Map<string, number>()
  let scheduled: NodeJS.Immediate | undefined

  const stop = store.listen((change) => {
    const uid = jobUidOf(change)
    if (uid) enqueue(uid)
  })

  function enqueue(uid: string): void {
    due.add(uid)
    scheduled ??= setImmediate(work)
  }

  function work(): void {
    scheduled = undefined
    const uids = [...due]
    due.clear()
    const jobs = new Map(store.all<Job>(JOBS).map((job) => [job.metadata.uid, job]))
    for (const uid of uids) {
      const job = jobs.get(uid)
      try {
        if (job) sync(job, uid)
        else forget(uid)
      } catch (error) {
        // A Job that this cluster cannot run must not end the process.
        options.log?.error({ err: error, job: job?.metadata.name }, 'could not sync the Job')
        setAlarm(uid, RETRY_MS)
      }
    }
  }

  const podsOf = (uid: string) => store.all<Pod>(PODS).filter((pod) => pod.metadata.labels?.[CONTROLLER_UID] === uid)

  function sync(job: Job, uid: string): void {
    const nowMs = Date.now()
    const { backoffBaseMs } = options
    const plan = planJob({ job, pods: podsOf(uid), nowMs, lastFailureMs: lastFailures.get(uid), backoffBaseMs })
    if (plan.isExpired) {
      store.delete(JOBS, keyOf(job), { uid })
      return
    }
    if (plan.hasNewFailure) lastFailures.set(uid, nowMs)
    // Counters and finalizers change in one turn of the event loop, so every pod is counted exactly once.
    if (!isDeepStrictEqual(plan.status, job.status ?? {})) {
      store.setStatus<Job>(JOBS, keyOf(job), plan.status)
      options.log?.debug({ job: job.metadata.name, status: plan.status }, 'job changed')
    }
    for (const pod of plan.release) release(store, pod)
    for (const pod of plan.remove) remove(store, pod, plan.isSuspending)
    for (let i = 0; i < plan.create; i++) createPod(store, job, plan.indexes?.[i])
    setAlarm(uid, plan.wakeInMs)
  }

  function setAlarm(uid: string, inMs: number | undefined): void {
    clearTimeout(alarms.get(uid))
    alarms.delete(uid)
    if (inMs === undefined) return
    alarms.set(
      uid,
      setTimeout(() => enqueue(uid), timerMs(inMs / 1000)),
    )
  }

  /** The Job is deleted: the garbage collector deletes its pods, which need not be counted any more. */
  function forget(uid: string): void {
    setAlarm(uid, undefined)
    lastFailures.delete(uid)
    for (const pod of podsOf(uid)) release(store, pod)
  }

  return {
    close() {
      stop()
      clearImmediate(scheduled)
      for (const alarm of alarms.values()) clearTimeout(alarm)
    },
  }
}

function jobUidOf({ resource, object, old }: Change): string | undefined {
  const metadata = (object ?? old)?.metadata
  if (resource.plural === JOBS.plural && resource.group === JOBS.group) return metadata?.uid
  return resource.plural === PODS.plural && resource.group === PODS.group
    ? metadata?.labels?.[CONTROLLER_UID]
    : undefined
}

const keyOf = ({ metadata }: Job | Pod) => ({ namespace: metadata.namespace ?? '', name: metadata.name })

function createPod(store: Store, job: Job, index: number | undefined): void {
  const { name, namespace = '', uid = '' } = job.metadata
  const { labels, annotations } = job.spec.template.metadata ?? {}
  const own = index === undefined ? {} : { [COMPLETION_INDEX]: String(index) }
  const pod: Pod = {
    metadata: {
      name: `${index === undefined ? name : `${name}-${index}`}-${randomSuffix()}`,
      namespace,
      labels: { ...labels, ...own },
      annotations: { ...annotations, ...own },
      finalizers: [JOB_TRACKING],
      ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name, uid, controller: true, blockOwnerDeletion: true }],
    },
    spec: index === undefined ? job.spec.template.spec : indexedSpec(job.spec.template.spec, index),
  }
  store.create<Pod>(PODS, pod)
}

/** Every container learns the index of its pod. */
function indexedSpec(spec: PodSpec, index: number): PodSpec {
  const env = { name: 'JOB_COMPLETION_INDEX', value: String(index) }
  const withIndex = <C extends Container>(container: C): C => ({ ...container, env: [...(container.env ?? []), env] })
  const { initContainers, containers } = spec
  return {
    ...spec,
    containers: containers.map(withIndex),
    ...(initContainers && { initContainers: initContainers.map(withIndex) }),
  }
}

function release(store: Store, pod: Pod): void {
  const kept = pod.metadata.finalizers?.filter((f) => f !== JOB_TRACKING) ?? []
  if (kept.length === pod.metadata.finalizers?.length || !store.find(PODS, keyOf(pod))) return
  store.update<Pod>(PODS, keyOf(pod), (current) => ({
    ...current,
    metadata: { ...current.metadata, finalizers: kept },
  }))
}

function remove(store: Store, pod: Pod, isSuspending: boolean): void {
  if (isSuspending) {
    store.update<Pod>(PODS, keyOf(pod), (current) => ({
      ...current,
      metadata: { ...current.metadata, annotations: { ...current.metadata.annotations, [SUSPENDED]: 'true' } },
    }))
  }
  store.delete(PODS, keyOf(pod), { uid: pod.metadata.uid ?? '' })
}
