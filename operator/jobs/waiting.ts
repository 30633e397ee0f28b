import type { Job, Pod } from './batch.ts'
import { NO_POD_MS, startOfJob } from './evidence.ts'

const NO_IMAGE = ['ImagePullBackOff', 'ErrImagePull', 'ErrImageNeverPull', 'InvalidImageName', 'ImageInspectError']
const NO_CONTAINER = ['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError']

/** What a Job waits for before its program runs. */
export interface Waiting {
  reason: string
  message: string
  /** Since when no node has room, if that is the cause. */
  unschedulableSince?: string | undefined
  /** Look again after this time, which alone may change the answer. */
  lookAgainMs?: number
}

export const QUEUED: Waiting = { reason: 'Queued', message: 'Waiting for the pod to start' }

/** What a pod that has not started waits for, where the kubelet or the scheduler reports it. */
export function waitingOf(pod: Pod, now: Date): Waiting | undefined {
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {}
  // The sidecar first: until it starts, the program's own container reports only PodInitializing.
  const waiting = [...initContainerStatuses, ...containerStatuses].map((c) => c.state?.waiting).find((w) => w?.reason)
  const reason = waiting?.reason ?? ''
  if (NO_IMAGE.includes(reason)) return { reason: 'ImagePullBackOff', message: waiting?.message ?? reason }
  if (NO_CONTAINER.includes(reason)) return { reason, message: waiting?.message ?? reason }
  const scheduled = pod.status?.conditions?.find((c) => c.type === 'PodScheduled')
  if (scheduled?.status === 'True') return notStarted(pod, scheduled.lastTransitionTime, now)
  if (scheduled?.reason !== 'Unschedulable') return undefined
  const message = scheduled.message ?? 'No node has room'
  const unschedulableSince = scheduled.lastTransitionTime ?? pod.metadata.creationTimestamp
  return { reason: 'Unschedulable', message, unschedulableSince }
}

/** Long enough to pull a large image. Afterwards the node probably has a fault: network, disk or kubelet. */
const NOT_STARTED_MS = 120_000

function notStarted({ metadata }: Pod, since: string | undefined, now: Date): Waiting | undefined {
  if (since === undefined) return undefined
  const leftMs = NOT_STARTED_MS - (now.getTime() - Date.parse(since))
  if (leftMs > 0) return { ...QUEUED, lookAgainMs: leftMs }
  const where = `"kubectl describe pod ${metadata.name}" shows why`
  return { reason: 'PodNotStarted', message: `The node has not started the pod since ${since}; ${where}` }
}

/** Only the Job's events have the cause, and the operator's role does not permit to read them. */
export function waitingWithoutPod(job: Job, now: Date): Waiting {
  const since = startOfJob(job)
  if (since === undefined) return QUEUED
  const leftMs = NO_POD_MS - (now.getTime() - Date.parse(since))
  if (leftMs > 0) return { ...QUEUED, lookAgainMs: leftMs }
  const where = `"kubectl describe job ${job.metadata.name}" shows why`
  return { reason: 'PodNotCreated', message: `The Job has created no pod since ${since}; ${where}` }
}
