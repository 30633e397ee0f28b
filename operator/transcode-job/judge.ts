import type { Condition } from '../../crds/kind.ts'
import type { TranscodeJob, TranscodeJobStatus } from '../../crds/transcode-job.ts'
import { isOwnedBy, type Job, jobCondition, type Pod } from './batch.ts'
import { failureOf, hasRun, isLast, lastEnded, livePod, resultOf } from './evidence.ts'

export interface Evidence {
  resource: TranscodeJob
  job: Job | undefined
  /** Of this Job alone. */
  pods: readonly Pod[]
}

export type Verdict = Pick<Condition, 'status' | 'reason' | 'message'> & {
  phase: NonNullable<TranscodeJobStatus['phase']>
  /** Give this Job up and start over with another one. */
  startOver?: true
}

/** So many Jobs may be given up because their pods could not even start, before the resource fails. */
export const MAX_RESTARTS = 3

const pending = (reason: string, message: string): Verdict => ({ status: 'Unknown', phase: 'Pending', reason, message })
const running = (reason: string, message: string): Verdict => ({ status: 'Unknown', phase: 'Running', reason, message })
const failed = (reason: string, message: string): Verdict => ({ status: 'False', phase: 'Failed', reason, message })

/** The whole policy of what a TranscodeJob's state means. The order of the lines is the order of precedence. */
export function judge(seen: Evidence): Verdict {
  const { resource, job } = seen
  if (!job) return pending('Creating', 'Creating the Job')
  if (!isOwnedBy(job, resource.metadata.uid)) {
    return failed('NameTaken', `Another object owns the Job ${job.metadata.name}, whose name this one needs`)
  }
  if (jobCondition(job, 'Failed')) return judgeFailed(seen, job)
  if (jobCondition(job, 'Complete')) return judgeComplete(seen)
  if (job.metadata.deletionTimestamp) return pending('Creating', 'The Job is being deleted; another one will follow')
  if (resource.spec.suspend) {
    return { status: 'Unknown', phase: 'Suspended', reason: 'Suspended', message: 'Suspended by spec.suspend' }
  }
  return judgeRunning(seen)
}

function judgeComplete({ resource, pods }: Evidence): Verdict {
  const result = resultOf(pods.find((p) => p.status?.phase === 'Succeeded'))
  if (!result?.ok) return failed('ResultMissing', 'The Job finished without saying what it made')
  const n = resource.spec.inputs.length
  return { status: 'True', phase: 'Succeeded', reason: 'Succeeded', message: `${n} of ${n} inputs converted` }
}

function judgeFailed({ resource, pods }: Evidence, job: Job): Verdict {
  const known = failureOf(lastEnded(pods))
  if (known) return failed(known.reason, known.message)
  const condition = jobCondition(job, 'Failed')
  if (pods.length === 0 || pods.some(hasRun)) {
    return failed(condition?.reason ?? 'Failed', condition?.message ?? 'The Job did not say why')
  }
  // Refused by the kubelet or never given an image: our trouble or the cluster's, never the media's.
  const why = pods.map((p) => p.status?.message ?? p.status?.reason).find((text) => text) ?? 'no pod says why'
  if ((resource.status?.restarts ?? 0) >= MAX_RESTARTS) return failed('NeverStarted', `No attempt could start: ${why}`)
  return { ...pending('Retrying', `No attempt could start, beginning again with another Job: ${why}`), startOver: true }
}

const NO_IMAGE = ['ImagePullBackOff', 'ErrImagePull', 'ErrImageNeverPull', 'InvalidImageName', 'ImageInspectError']
const NO_CONTAINER = ['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError']

function judgeRunning({ resource, pods }: Evidence): Verdict {
  const { maxAttempts } = resource.spec
  const attempts = pods.filter(hasRun).length
  const isRunning = running('Running', `Attempt ${attempts} of ${maxAttempts} is running`)
  const live = livePod(pods)
  if (live) {
    if (hasRun(live)) return isRunning
    return judgeWaiting(live) ?? pending('Queued', 'Waiting for the pod to start')
  }
  const ended = lastEnded(pods)
  if (!ended) return pending('Queued', 'Waiting for the pod to start')
  // The Job takes a moment to see that it is over. Until then nothing is said, least of all that it is tried again.
  if (attempts >= maxAttempts || isLast(ended)) return isRunning
  const { reason = 'Failed', message = '' } = failureOf(ended) ?? {}
  return running('Retrying', `Attempt ${attempts} of ${maxAttempts} failed: ${reason}: ${message}`)
}

function judgeWaiting(pod: Pod): Verdict | undefined {
  const waiting = pod.status?.containerStatuses?.map((c) => c.state?.waiting).find((w) => w?.reason)
  const reason = waiting?.reason ?? ''
  if (NO_IMAGE.includes(reason)) return pending('ImagePullBackOff', waiting?.message ?? reason)
  if (NO_CONTAINER.includes(reason)) return pending(reason, waiting?.message ?? reason)
  const scheduled = pod.status?.conditions?.find((c) => c.type === 'PodScheduled' && c.status === 'False')
  if (scheduled?.reason === 'Unschedulable') return pending('Unschedulable', scheduled.message ?? 'No node has room')
  return undefined
}
