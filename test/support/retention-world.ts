import { setImmediate as turn } from 'node:timers/promises'
import type { RetentionPolicyStatus, RunRecord } from '../../crds/retention-policy.ts'
import { RETENTION_POLICIES } from '../../crds/retention-policy.ts'
import type { RetentionResult } from '../../lib/contract/retention.ts'
import { RetentionRun } from '../../lib/contract/retention.ts'
import { type Cluster, JOBS, type KubeObject, type ObjectKey, PODS } from '../../lib/runtime/kube/cluster.ts'
import type { Job, Pod } from '../../operator/jobs/batch.ts'
import { openJobCaches } from '../../operator/jobs/caches.ts'
import { reconcileRetention } from '../../operator/retention-policy/reconcile.ts'
import { openPolicyCache, type RawPolicy } from '../../operator/retention-policy/resources.ts'
import { POLICY_ANNOTATION } from '../../operator/retention-policy/run.ts'
import { parseSchedule, type Schedule } from '../../operator/retention-policy/schedule.ts'
import type { PodTemplate } from '../../operator/retention-policy/template.ts'
import type { Result } from '../../operator/runtime/controller.ts'
import type { KubeEvent } from '../../operator/runtime/events.ts'
import { newRetentionPolicy } from './retention-policy.ts'
import { storeCluster } from './store-cluster.ts'

const namespace = 'media'
export const EVERY_TEN = '*/10 * * * *'

export const template: PodTemplate = {
  metadata: { labels: { team: 'storage' } },
  spec: {
    terminationGracePeriodSeconds: 120,
    restartPolicy: 'Never',
    containers: [{ name: 'retention', image: 'keepsake:1', command: ['node', 'api/features/retention/main.js'] }],
  },
}

export const aResult = (change: Partial<RetentionResult> = {}): RetentionResult => ({
  v: 1,
  moved: 0,
  purged: 0,
  bytes: 0,
  failures: 0,
  due: 0,
  ended: 'Finished',
  errors: [],
  ...change,
})

interface Options {
  metadata?: object
  spec?: object
  template?: PodTemplate | undefined
}

/** An API server with a policy, and a reconciler of it; the test plays the clock, the Job controller and the kubelet. */
export function retentionWorld({ metadata, spec, ...options }: Options = {}) {
  const api = storeCluster()
  const { store } = api
  const events: KubeEvent[] = []
  const recorded: RunRecord[] = []
  const errors: unknown[] = []
  const create = (change: { metadata?: object; spec?: object }) =>
    store.create<RawPolicy>(
      RETENTION_POLICIES,
      newRetentionPolicy({ ...change, spec: { schedule: EVERY_TEN, ...change.spec } }) as unknown as RawPolicy,
    )
  const policy = create({ ...(metadata && { metadata }), ...(spec && { spec }) })
  const key = { namespace, name: policy.metadata.name }
  const schedule = (parseSchedule(EVERY_TEN) as { schedule: Schedule }).schedule
  /** The first slot after the creation, which takes place at the time of the machine. */
  const firstSlot = schedule.next(new Date(Date.parse(policy.metadata.creationTimestamp ?? ''))) as Date
  const time = { now: new Date(firstSlot.getTime() - 60_000) }

  const { create: createAny } = api.cluster
  /** The Job controller sees a new Job at once, at the time of the test. */
  api.cluster.create = async (resource, object) => {
    const made = await createAny(resource, object)
    if (resource !== JOBS) return made
    return store.setStatus(
      JOBS,
      { namespace, name: made.metadata.name },
      { startTime: time.now.toISOString() },
    ) as typeof made
  }

  /** Another process with caches of its own. */
  function replica(cluster: Cluster = api.cluster, podTemplate = 'template' in options ? options.template : template) {
    const changed: string[] = []
    const caches = openPolicyCache({ cluster, namespace: undefined, onChange: (k) => void changed.push(k.name) })
    const owners = new Map([[POLICY_ANNOTATION, caches.childChanged]])
    const jobCaches = openJobCaches({ cluster, namespace: undefined, owners })
    const reconcile = reconcileRetention({
      cluster,
      caches: { ...caches, ...jobCaches },
      template: podTemplate,
      events: { record: (_, event) => void events.push(event), flush: async () => {} },
      onRecorded: (_, run) => void recorded.push(run),
      mayWrite: () => true,
      now: () => time.now,
    })
    return {
      changed,
      caches,
      async once(of: ObjectKey = key): Promise<Result | undefined> {
        await turn()
        await turn()
        return reconcile(of, new AbortController().signal).catch((error: unknown) => void errors.push(error))
      },
    }
  }
  const own = replica()
  const { once } = own
  const settle = async (of: ObjectKey = key) => {
    for (let i = 0; i < 6; i++) await once(of)
  }
  const jobs = () => store.all<Job>(JOBS)
  const job = (name?: string) => {
    const found = jobs().find((j) => name === undefined || j.metadata.name === name)
    if (!found) throw new Error(`there is no Job ${name ?? ''}`)
    return found as Job & {
      spec: { template: { metadata: object; spec: { containers: { env: { name: string; value: string }[] }[] } } }
    }
  }
  const keyOf = ({ metadata: m }: KubeObject) => ({ namespace, name: m.name })
  const seen = (name = key.name) => store.find<RawPolicy>(RETENTION_POLICIES, { namespace, name })
  const setPod = (name: string, phase: string, state: object) =>
    store.setStatus<Pod>(PODS, { namespace, name }, { phase, containerStatuses: [{ name: 'retention', state }] })

  return {
    ...api,
    policy,
    key,
    events,
    recorded,
    errors,
    time,
    firstSlot,
    create,
    replica,
    changed: own.changed,
    once,
    settle,
    jobs,
    job,
    seen,
    status: (): RetentionPolicyStatus => seen()?.status ?? {},
    ready: (name?: string) => seen(name)?.status?.conditions?.find((c) => c.type === 'Ready'),
    /** What the pods of the run got. */
    run: (name?: string) => {
      const env = job(name).spec.template.spec.containers[0]?.env.find((e) => e.name === 'RETENTION_RUN')
      return RetentionRun.parse(JSON.parse(env?.value ?? ''))
    },
    minutes(after: number) {
      time.now = new Date(firstSlot.getTime() + after * 60_000)
    },
    edit: (change: object) => store.patch<RawPolicy>(RETENTION_POLICIES, key, change),
    annotate: (name: string, value: string) =>
      store.patch<RawPolicy>(RETENTION_POLICIES, key, { metadata: { annotations: { [name]: value } } }),
    /** A pod of a run that runs. */
    addPod(name: string, run?: string): void {
      const {
        metadata: { name: jobName, uid },
        spec: jobSpec,
      } = job(run)
      const owner = { apiVersion: 'batch/v1', kind: 'Job', name: jobName, uid, controller: true }
      const { metadata: own, spec: podSpec } = jobSpec.template
      store.create(PODS, {
        metadata: { ...own, name, namespace, ownerReferences: [owner] },
        spec: podSpec,
      } as unknown as Pod)
      setPod(name, 'Running', { running: { startedAt: time.now.toISOString() } })
    },
    /** The kubelet cannot start the pod. */
    blockPod: (name: string, reason: string, message = reason) =>
      void setPod(name, 'Pending', { waiting: { reason, message } }),
    /** The eviction API marks it, before the kubelet ends it. */
    evictPod(name: string, result: RetentionResult): void {
      const terminated = { exitCode: 143, finishedAt: time.now.toISOString(), message: JSON.stringify(result) }
      const conditions = [{ type: 'DisruptionTarget', status: 'True', reason: 'EvictionByEvictionAPI' }]
      const containerStatuses = [{ name: 'retention', state: { terminated } }]
      store.setStatus<Pod>(PODS, { namespace, name }, { phase: 'Failed', conditions, containerStatuses })
    },
    endPod(name: string, result: RetentionResult | undefined, exitCode = 0): void {
      const message = result && JSON.stringify(result)
      const terminated = { exitCode, finishedAt: time.now.toISOString(), ...(message && { message }) }
      setPod(name, exitCode === 0 ? 'Succeeded' : 'Failed', { terminated })
    },
    removePod: (name: string) => void store.delete(PODS, { namespace, name }, { graceSeconds: 0 }),
    setJob: (status: object, name?: string) => store.setStatus<Job>(JOBS, keyOf(job(name)), status),
    completeJob(name?: string): void {
      const at = time.now.toISOString()
      const condition = { type: 'Complete', status: 'True', lastTransitionTime: at }
      store.setStatus<Job>(JOBS, keyOf(job(name)), { conditions: [condition], completionTime: at, succeeded: 1 })
    },
    /** What the Job controller does with a suspended Job, as far as its status. */
    suspended: (name?: string) =>
      store.setStatus<Job>(JOBS, keyOf(job(name)), { conditions: [{ type: 'Suspended', status: 'True' }] }),
    deletePolicy: (name = key.name) => void store.delete(RETENTION_POLICIES, { namespace, name }),
  }
}
