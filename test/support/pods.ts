import { randomUUID } from 'node:crypto'
import type { JobResult } from '../../lib/contract/job-result.ts'
import type { Job, Pod } from '../../operator/jobs/batch.ts'
import type { Plan } from '../../operator/program/plan.ts'

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
/** A pod of the Job that a kit's aJob() makes. Later ones of a test are younger. */
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
