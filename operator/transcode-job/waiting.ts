import { succeededOf } from '../../crds/transcode-job.ts'
import { type Job, jobCondition, type Pod } from './batch.ts'
import { configurationOf, madeOf } from './child.ts'
import { hasRun, livePod, NO_POD_MS, startOfJob } from './evidence.ts'
import { shapeOf } from './shape.ts'
import { type Evidence, isGone, pending, type Verdict } from './verdict.ts'

const NO_IMAGE = ['ImagePullBackOff', 'ErrImagePull', 'ErrImageNeverPull', 'InvalidImageName', 'ImageInspectError']
const NO_CONTAINER = ['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError']

export const QUEUED = pending('Queued', 'Waiting for the pod to start')

/** What a pod waits for that has not started, where anybody says so. */
export function judgeWaiting(seen: Evidence, job: Job, pod: Pod): Verdict | undefined {
  const waiting = pod.status?.containerStatuses?.map((c) => c.state?.waiting).find((w) => w?.reason)
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

/** Long enough for a large image. After that something is wrong with the node: its network, its disk, its kubelet. */
const NOT_STARTED_MS = 120_000

function judgeNotStarted({ now }: Evidence, { metadata }: Pod, since: string | undefined): Verdict | undefined {
  if (since === undefined) return undefined
  const leftMs = NOT_STARTED_MS - (now.getTime() - Date.parse(since))
  if (leftMs > 0) return { ...QUEUED, lookAgainMs: leftMs }
  const where = `"kubectl describe pod ${metadata.name}" says why`
  return pending('PodNotStarted', `Its node has not started the pod since ${since}; ${where}`)
}

/** A resource that may do without a GPU does not wait for one for ever. */
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
  return { reason: 'GpuUnavailable', message: `Going on with the CPU: ${gpuGivenUp}`, learned: { gpuGivenUp } }
}

/** Only events of the Job say why, and those are not ours to read. */
export function judgeWithoutPod({ now }: Evidence, job: Job): Verdict {
  const since = startOfJob(job)
  if (since === undefined) return QUEUED
  const leftMs = NO_POD_MS - (now.getTime() - Date.parse(since))
  if (leftMs > 0) return { ...QUEUED, lookAgainMs: leftMs }
  const where = `"kubectl describe job ${job.metadata.name}" says why`
  return pending('PodNotCreated', `The Job has made no pod since ${since}; ${where}`)
}

const OUTDATED = 'Outdated'

/**
 * A pod that waits in vain, of a Job made of another configuration than ours: somebody has mended what it waits for, and
 * a Job's template cannot be changed. It is recorded first, so that whoever finds the Job ended knows that we did it.
 */
export function judgeOutdated(seen: Evidence, job: Job, isOver: boolean): Verdict | undefined {
  const told = succeededOf(seen.resource.status)
  const isTold = told?.reason === OUTDATED
  const waits = isOver ? undefined : waitsInVain(seen, job)
  if (isTold && (waits || isEnding(job, isOver))) {
    return {
      ...pending(OUTDATED, told.message),
      endJob: true,
      ...(isGone(seen, isOver) && { remake: true, lookAgainMs: 1000 }),
    }
  }
  const made = madeOf(job)
  if (!waits || made === undefined || made === configurationOf(seen.config)) return undefined
  const message = `${waits.reason}: ${waits.message}`.slice(0, 900)
  const why = `${message}; the configuration has changed since, and another Job takes its place`
  return { ...pending(OUTDATED, why), lookAgainMs: 10 }
}

function waitsInVain(seen: Evidence, job: Job): Verdict | undefined {
  const live = livePod(seen.pods)
  const waits = live && !hasRun(live) ? judgeWaiting(seen, job, live) : undefined
  return waits?.reason === QUEUED.reason ? undefined : waits
}

/** Until it is over, and if it is over for no other reason. */
function isEnding(job: Job, isOver: boolean): boolean {
  if (job.spec.activeDeadlineSeconds === undefined) return false
  return !isOver || jobCondition(job, 'Failed')?.reason === 'DeadlineExceeded'
}
