import { randomUUID } from 'node:crypto'
import { parseTranscodeJob, type TranscodeJob, type TranscodeJobSpec } from '../../crds/transcode-job.ts'
import type { JobResult } from '../../lib/contract/job-result.ts'
import type { Job, Pod } from '../../operator/jobs/batch.ts'
import { type ChildConfig, childJob } from '../../operator/program/child.ts'
import { type Observed, type Plan, plan } from '../../operator/program/plan.ts'

export const childConfig: ChildConfig = {
  image: 'keepsake:1',
  storeSecret: 'object-store',
  progressUrl: 'http://operator:8090/progress',
  progressKey: 'k'.repeat(32),
  gpuAvailable: false,
  cpu: '2',
  cpuBackfill: '500m',
  memory: '2Gi',
  memoryMax: '8Gi',
  gpuWaitSeconds: 300,
  scratch: '20Gi',
  logLevel: 'info',
  priorityClasses: {},
  nodeSelector: {},
  tolerations: [],
}

export const anInput = (id = 'm1') => ({
  id,
  type: 'video' as const,
  sourceKey: `org/o/media/${id}/original`,
  outputPrefix: `org/o/media/${id}/v1/`,
})

/** A TranscodeJob as a client sends it. */
export const newTranscodeJob = (change: { metadata?: object; spec?: object } = {}) => ({
  apiVersion: 'media.keepsake.dev/v1alpha1',
  kind: 'TranscodeJob',
  metadata: { name: 'med-1', namespace: 'media', ...change.metadata },
  spec: { inputs: [anInput()], ...change.spec },
})

/** A valid TranscodeJob; a test says only what it is about. */
export function aTranscodeJob(
  change: { metadata?: object; spec?: Partial<TranscodeJobSpec>; status?: TranscodeJob['status'] } = {},
): TranscodeJob {
  const fresh = newTranscodeJob(change)
  const server = { uid: 'uid-1', generation: 1, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' }
  const parsed = parseTranscodeJob({
    ...fresh,
    metadata: { ...server, ...fresh.metadata },
    ...(change.status && { status: change.status }),
  })
  if ('problem' in parsed) throw new Error(parsed.problem)
  return parsed.resource
}

/** The Job of a TranscodeJob, as the API server would hand it out. */
export const aJob = (resource: TranscodeJob, status: Job['status'] = {}, spec: object = {}): Job => {
  const job = childJob(resource, (resource.status?.restarts ?? 0) + 1, childConfig)
  return { ...job, metadata: { ...job.metadata, uid: 'job-uid' }, spec: { ...job.spec, ...spec }, status }
}
/** The Job after the patch that a plan has for it, if any. */
export function patched(job: Job, { patchJob }: Plan): Job {
  const annotations = { ...job.metadata.annotations, ...patchJob?.annotations }
  return { ...job, metadata: { ...job.metadata, annotations }, spec: { ...job.spec, ...patchJob?.spec } }
}
export const complete = (): NonNullable<Job['status']> => ({
  conditions: [{ type: 'Complete', status: 'True' }],
  startTime: '2026-01-01T00:00:01Z',
  completionTime: '2026-01-01T00:05:00Z',
  succeeded: 1,
})
export const failedWith = (reason: string, failed = 1): NonNullable<Job['status']> => ({
  conditions: [
    { type: 'Failed', status: 'True', reason, message: 'said Kubernetes', lastTransitionTime: '2026-01-01T00:05:00Z' },
  ],
  startTime: '2026-01-01T00:00:01Z',
  failed,
})

const container = (state: object) => [{ name: 'media', state }]
/** A pod of the Job made by aJob(). Later ones of a test are younger. */
export function aPod(n: number, status: NonNullable<Pod['status']>): Pod {
  return {
    metadata: {
      name: `pod-${n}`,
      namespace: 'media',
      uid: randomUUID(),
      creationTimestamp: `2026-01-01T00:0${n}:00Z`,
      ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name: 'j', uid: 'job-uid', controller: true }],
    },
    status,
  }
}
export const pendingPod = (n: number) => aPod(n, { phase: 'Pending' })
export const waitingPod = (n: number, reason: string) =>
  aPod(n, { phase: 'Pending', containerStatuses: container({ waiting: { reason, message: `${reason}!` } }) })
/** Its sidecar cannot start; the kubelet reports no cause for the container of the program. */
export const sidecarWaitingPod = (n: number, reason: string) =>
  aPod(n, {
    phase: 'Pending',
    initContainerStatuses: [{ name: 'store-proxy', state: { waiting: { reason, message: `${reason}!` } } }],
    containerStatuses: container({ waiting: { reason: 'PodInitializing' } }),
  })
/** For which no node has room. */
export const unschedulablePod = (n: number) =>
  aPod(n, {
    phase: 'Pending',
    conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/3 nodes' }],
  })
export const runningPod = (n: number) =>
  aPod(n, { phase: 'Running', containerStatuses: container({ running: { startedAt: '2026-01-01T00:00:02Z' } }) })
export const endedPod = (
  n: number,
  exitCode: number,
  result?: JobResult,
  more: { reason?: string; podReason?: string } = {},
) =>
  aPod(n, {
    phase: exitCode === 0 ? 'Succeeded' : 'Failed',
    ...(more.podReason && { reason: more.podReason }),
    containerStatuses: container({
      terminated: {
        exitCode,
        reason: more.reason ?? (exitCode === 0 ? 'Completed' : 'Error'),
        ...(result && { message: JSON.stringify(result) }),
      },
    }),
  })

/** When the decisions of `planFor` are taken. */
export const planTime = new Date('2026-01-01T00:10:00Z')

/** The plan for a new resource of which nothing is there but what is given. */
export const planFor = (seen: Partial<Observed>): Plan =>
  plan({
    resource: aTranscodeJob(),
    job: undefined,
    pods: [],
    leftovers: [],
    config: childConfig,
    now: planTime,
    ...seen,
  })
