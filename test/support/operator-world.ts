import type { JobResult } from '../../lib/contract/job-result.ts'
import { JOBS, type KubeObject, type OwnerReference, PODS } from '../../lib/runtime/kube/cluster.ts'
import type { Store } from '../../local/cluster/store.ts'
import type { Job, Pod } from '../../operator/jobs/batch.ts'
import type { RawResource } from '../../operator/program/kind.ts'
import { eventually } from './eventually.ts'
import { type Kit, TRANSCODE } from './program-kinds.ts'

const namespace = 'media'

/** Plays Job controller and kubelet in the objects of a test's API server, for resources of one kind. */
export function controllersOf(store: Store, { kind, newResource }: Kit = TRANSCODE) {
  const isOwner = (by: OwnerReference | undefined, name: string) => by?.kind === kind.resource.kind && by.name === name
  const jobOf = (owner: string) =>
    store.all<Job>(JOBS).find((job) => isOwner(job.metadata.ownerReferences?.[0], owner)) as Job
  const setPod = (name: string, phase: string, state: object) =>
    store.setStatus<Pod>(PODS, { namespace, name }, { phase, containerStatuses: [{ name: 'media', state }] })
  const podOf = (owner: string) => `${owner}-${kind.shortName}`
  const setJob = (owner: string, status: object) =>
    store.setStatus<Job>(JOBS, { namespace, name: jobOf(owner).metadata.name }, status)
  return {
    submit: (name: string, spec: object = {}) =>
      store.create(kind.resource, newResource({ metadata: { name }, spec }) as KubeObject),
    resource: (name: string) => store.find<RawResource>(kind.resource, { namespace, name }),
    jobs: () => store.all<Job>(JOBS),
    jobOf,
    awaitJob: (owner: string) => eventually(`the Job of ${owner}`, () => jobOf(owner)),
    run(owner: string): void {
      const { metadata, spec } = jobOf(owner) as Job & { spec: { template: { metadata: object; spec: object } } }
      const reference = {
        apiVersion: 'batch/v1',
        kind: 'Job',
        name: metadata.name,
        uid: metadata.uid,
        controller: true,
      }
      store.create(PODS, {
        metadata: { ...spec.template.metadata, name: podOf(owner), namespace, ownerReferences: [reference] },
        spec: spec.template.spec,
      } as unknown as Pod)
      setPod(podOf(owner), 'Running', { running: { startedAt: '2026-01-01T00:00:02Z' } })
      setJob(owner, { startTime: '2026-01-01T00:00:01Z', active: 1 })
    },
    succeed(owner: string, result: JobResult = { ok: true, accelerator: 'cpu' }): void {
      const terminated = { exitCode: 0, reason: 'Completed', message: JSON.stringify(result) }
      setPod(podOf(owner), 'Succeeded', { terminated })
      setJob(owner, {
        conditions: [{ type: 'Complete', status: 'True' }],
        startTime: '2026-01-01T00:00:01Z',
        completionTime: new Date().toISOString(),
        succeeded: 1,
      })
    },
    /** What the pod of this Job was given. */
    envOf(owner: string): Record<string, string> {
      const { spec } = jobOf(owner) as Job & {
        spec: { template: { spec: { containers: { env: { name: string; value: string }[] }[] } } }
      }
      return Object.fromEntries(spec.template.spec.containers[0]?.env.map((e) => [e.name, e.value]) ?? [])
    },
  }
}

export const operatorEnv = (change: Record<string, string> = {}): Record<string, string> => ({
  HOST: '127.0.0.1',
  PROGRESS_PORT: '0',
  HEALTH_PORT: '0',
  METRICS_PORT: '0',
  PROGRESS_KEY: 'k'.repeat(32),
  JOB_IMAGE: 'keepsake:1',
  STORE_SECRET: 'object-store',
  HIGHLIGHT_MEMORY: '2Gi', // as JOB_MEMORY, so that what holds for one kind holds for all
  LEASE_NAMESPACE: namespace,
  LOG_LEVEL: 'silent',
  ...change,
})
