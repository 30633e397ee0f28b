import { configurationOf, madeOf } from '../program/child.ts'
import { shapeOf } from '../program/shape.ts'
import { type Evidence, pending, type Verdict } from '../program/verdict.ts'
import type { Job, Pod } from './batch.ts'
import { hasRun, livePod, NO_POD_MS, startOfJob } from './evidence.ts'

const NO_IMAGE = ['ImagePullBackOff', 'ErrImagePull', 'ErrImageNeverPull', 'InvalidImageName', 'ImageInspectError']
const NO_CONTAINER = ['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError']

export const QUEUED = pending('Queued', 'Waiting for the pod to start')

/** What a pod that has not started waits for, where the kubelet or the scheduler reports it. */
export function judgeWaiting(seen: Evidence, job: Job, pod: Pod): Verdict | undefined {
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {}
  // The sidecar first: until it starts, the program's own container reports only PodInitializing.
  const waiting = [...initContainerStatuses, ...containerStatuses].map((c) => c.state?.waiting).find((w) => w?.reason)
  const reason = waiting?.reason ?? ''
  if (NO_IMAGE.includes(reason)) return pending('ImagePullBackOff', waiting?.message ?? reason)
  if (NO_CONTAINER.includes(reason)) return pending(reason, waiting?.message ?? reason)
  const scheduled = pod.status?.conditions?.find((c) => c.type === 'PodScheduled')
  if (scheduled?.status === 'True') return judgeNotStarted(seen, pod, scheduled.lastTransitionTime)
  if (scheduled?.reason !== 'Unschedulable') return undefined
  const message = scheduled.message ?? 'No node has room'
  const since = scheduled.lastTransitionTime ?? pod.metadata.creationTimestamp
  return { ...pending('Unschedulable', message), ...givesUpGpu(seen, job, { message, since }) }
}

/** Long enough to pull a large image. Afterwards the node probably has a fault: network, disk or kubelet. */
const NOT_STARTED_MS = 120_000

function judgeNotStarted({ now }: Evidence, { metadata }: Pod, since: string | undefined): Verdict | undefined {
  if (since === undefined) return undefined
  const leftMs = NOT_STARTED_MS - (now.getTime() - Date.parse(since))
  if (leftMs > 0) return { ...QUEUED, lookAgainMs: leftMs }
  const where = `"kubectl describe pod ${metadata.name}" shows why`
  return pending('PodNotStarted', `The node has not started the pod since ${since}; ${where}`)
}

/** A resource with `auto` falls back to the CPU after the configured wait. */
function givesUpGpu(
  { resource, config, now }: Evidence,
  job: Job,
  { message, since }: { message: string; since: string | undefined },
): Partial<Verdict> {
  if (resource.spec.accelerator !== 'auto' || !shapeOf(job, config).gpu) return {}
  const waitMs = config.gpuWaitSeconds * 1000
  const waitedMs = now.getTime() - Date.parse(since ?? now.toISOString())
  if (waitedMs < waitMs) return { lookAgainMs: waitMs - waitedMs }
  const gpuGivenUp = `no GPU was free within ${config.gpuWaitSeconds} s: ${message}`.slice(0, 256)
  return { reason: 'GpuUnavailable', message: `Continuing on the CPU: ${gpuGivenUp}`, learned: { gpuGivenUp } }
}

/** Only the Job's events have the cause, and the operator's role does not permit to read them. */
export function judgeWithoutPod({ now }: Evidence, job: Job): Verdict {
  const since = startOfJob(job)
  if (since === undefined) return QUEUED
  const leftMs = NO_POD_MS - (now.getTime() - Date.parse(since))
  if (leftMs > 0) return { ...QUEUED, lookAgainMs: leftMs }
  const where = `"kubectl describe job ${job.metadata.name}" shows why`
  return pending('PodNotCreated', `The Job has created no pod since ${since}; ${where}`)
}

/**
 * Replaces a Job whose pod cannot start and whose configuration differs from the operator's: an administrator has
 * probably fixed the cause, and a Job's template is immutable.
 */
export function judgeOutdated(seen: Evidence, job: Job): Verdict | undefined {
  const waits = waitsInVain(seen, job)
  const made = madeOf(job)
  if (!waits || made === undefined || made === configurationOf(seen.config)) return undefined
  const message = `${waits.reason}: ${waits.message}`.slice(0, 900)
  const why = `${message}; the configuration has changed since, so a new Job replaces this one`
  return { ...pending('Outdated', why), endJob: 'Remake' }
}

function waitsInVain(seen: Evidence, job: Job): Verdict | undefined {
  const live = livePod(seen.pods)
  const waits = live && !hasRun(live) ? judgeWaiting(seen, job, live) : undefined
  return waits?.reason === QUEUED.reason ? undefined : waits
}
