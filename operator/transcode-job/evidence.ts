import { succeededOf, type TranscodeJob, type TranscodeOutput } from '../../crds/transcode-job.ts'
import { EXIT, type JobResult, PERMANENT_EXITS, parseJobResult } from '../../lib/contract/job-result.ts'
import { manifestKey } from '../../lib/contract/object-keys.ts'
import { isJobFinished, isTerminalPod, type Job, type JobCondition, type Pod, type Terminated } from './batch.ts'
import { CONTAINER } from './child.ts'

/** What a pod's container last did. A pod that the kubelet refused never had one, and says nothing about the media. */
const containerOf = (pod: Pod | undefined) => pod?.status?.containerStatuses?.find((c) => c.name === CONTAINER)
const terminatedOf = (pod: Pod | undefined): Terminated | undefined => containerOf(pod)?.state?.terminated

/**
 * What the kubelet says of a program that it saw running and did not find any more when its pod ended; its state reads
 * `ContainerCreating` again then. Nothing else comes here: no container of ours is started again after it has ended.
 */
const lostOf = (pod: Pod | undefined): Terminated | undefined => containerOf(pod)?.lastState?.terminated

/** True when the program really was started: only then does a failure say something about the media or the program. */
export function hasRun(pod: Pod): boolean {
  const container = containerOf(pod)
  if (container?.state?.running || lostOf(pod)) return true
  const ended = container?.state?.terminated
  if (!ended || ended.reason === 'StartError' || ended.reason === 'ContainerCannotRun') return false
  // The kubelet says so of whatever it does not find when a pod ends, even of a container whose image never came.
  return ended.reason !== 'ContainerStatusUnknown' || Boolean(container?.containerID)
}

/** The condition with which the cluster says that it ended, or is ending, a pod for reasons of its own. */
export const disruptionOf = (pod: Pod | undefined): JobCondition | undefined =>
  pod?.status?.conditions?.find((c) => c.type === 'DisruptionTarget' && c.status === 'True')

/**
 * Since when nobody hears of the node: its controller takes Ready away from the pods of a lost node, while the kubelet's
 * last word about their containers stands. We use no readiness gates, so nothing else looks like that.
 */
export function unheardSince(pod: Pod): string | undefined {
  const condition = (type: string) => pod.status?.conditions?.find((c) => c.type === type)
  const ready = condition('Ready')
  if (ready?.status !== 'False' || condition('ContainersReady')?.status !== 'True') return undefined
  return ready.lastTransitionTime ?? 'a while ago'
}

export const wasOutOfMemory = (pod: Pod | undefined): boolean => terminatedOf(pod)?.reason === 'OOMKilled'

const createdAt = (pod: Pod) => pod.metadata.creationTimestamp ?? ''
const inOrder = (pods: readonly Pod[]): Pod[] =>
  [...pods].sort((a, b) => createdAt(a).localeCompare(createdAt(b)) || a.metadata.name.localeCompare(b.metadata.name))

/** The pod of the current attempt: the newest that has not ended. */
export const livePod = (pods: readonly Pod[]): Pod | undefined =>
  inOrder(pods)
    .filter((p) => !isTerminalPod(p))
    .at(-1)

/** The last attempt that has ended and really ran. */
export const lastEnded = (pods: readonly Pod[]): Pod | undefined =>
  inOrder(pods)
    .filter((p) => isTerminalPod(p) && hasRun(p))
    .at(-1)

/** Whether no other attempt can follow this one: it succeeded, or its exit code says that none would help. */
export const isLast = (pod: Pod): boolean =>
  pod.status?.phase === 'Succeeded' || PERMANENT_EXITS.includes(terminatedOf(pod)?.exitCode ?? -1)

/** What the program itself said at the end, if it came to that. */
export const resultOf = (pod: Pod | undefined): JobResult | undefined =>
  pod ? parseJobResult(terminatedOf(pod)?.message) : undefined

/** A pod is made at once, or something keeps its Job from making it: a quota, a policy, a webhook. */
export const NO_POD_MS = 30_000

/** Since when a Job should have had a pod. */
export function startOfJob({ metadata, status }: Job): string | undefined {
  // Of one that was suspended the Job says when it started anew, as soon as it has heard that it may.
  const isSuspended = status?.conditions?.some((c) => c.type === 'Suspended' && c.status === 'True')
  return isSuspended ? undefined : (status?.startTime ?? metadata.creationTimestamp)
}

/**
 * Whether the pods that we know are enough to judge by. The cache may not have caught up with a Job that has finished,
 * and after a start it lacks the pods that had succeeded, which matters as long as that is not recorded.
 */
export function isConclusive({ status }: TranscodeJob, job: Job, pods: readonly Pod[], now: Date): boolean {
  if (!isJobFinished(job)) {
    if (livePod(pods) !== undefined || pods.some((p) => p.status?.phase === 'Succeeded')) return true
    if (succeededOf(status)?.reason === 'Running') return false
    const age = now.getTime() - Date.parse(startOfJob(job) ?? now.toISOString())
    return pods.length > 0 || age < NO_POD_MS
  }
  const ended = pods.filter(isTerminalPod)
  const wanted = (job.status?.failed ?? 0) + (job.status?.succeeded ?? 0)
  return ended.length === pods.length && ended.length >= Math.max(1, wanted)
}

const BY_EXIT: Record<number, [reason: string, message: string]> = {
  [EXIT.badSpec]: ['BadSpec', 'The program did not understand its specification'],
  [EXIT.inputMissing]: ['InputMissing', 'The source is missing in the object store'],
  [EXIT.inputBad]: ['CorruptInput', 'The source cannot be decoded'],
  [EXIT.encoderMissing]: ['EncoderMissing', 'The encoder that was asked for is not available'],
  [EXIT.transient]: ['StorageUnavailable', 'The object store or the network failed'],
  [EXIT.noSpace]: ['NoSpace', 'There was not enough scratch space'],
  [EXIT.gpuBusy]: ['GpuBusy', 'The GPU had no room'],
  [EXIT.verificationFailed]: ['VerificationFailed', 'What was made did not pass the check'],
  [EXIT.terminated]: ['Terminated', 'The program was told to stop'],
}

/** Why an attempt failed, as precisely as anybody knows; undefined for a pod that says nothing. */
export function failureOf(pod: Pod | undefined): { reason: string; message: string } | undefined {
  const ended = terminatedOf(pod) ?? lostOf(pod)
  if (!pod || !ended) return undefined
  const result = resultOf(pod)
  if (wasOutOfMemory(pod)) return { reason: 'OOMKilled', message: 'The program needed more memory than allowed' }
  if (pod.status?.reason === 'DeadlineExceeded') {
    return { reason: 'DeadlineExceeded', message: 'The attempt took longer than attemptDeadlineSeconds' }
  }
  const said =
    result?.ok === false && result.reason ? { reason: result.reason, message: result.message ?? '' } : undefined
  // A program that was told to stop cannot know why: an evicted pod says it, the program does not.
  if (said && (said.reason !== 'Terminated' || !pod.status?.reason)) return said
  if (pod.status?.reason) return { reason: pod.status.reason, message: pod.status.message ?? '' }
  return failureByExit(ended)
}

/** For want of anybody who says more. */
function failureByExit({ exitCode, reason, message = '' }: Terminated): { reason: string; message: string } {
  if (reason === 'ContainerStatusUnknown') return { reason, message }
  const known = BY_EXIT[exitCode] ?? ['Failed', `The program ended with exit code ${exitCode}`]
  return { reason: known[0], message: known[1] }
}

/**
 * What became of the inputs. The program leaves out what follows from the specification when its message would be too
 * long: keys of manifests, and after a success also the inputs that succeeded.
 */
export function outputsOf({ spec }: TranscodeJob, result: JobResult | undefined): TranscodeOutput[] {
  const said = new Map(result?.outputs?.map((o) => [o.id, o]))
  return spec.inputs.flatMap(({ id, outputPrefix }): TranscodeOutput[] => {
    const output = said.get(id) ?? (result?.ok ? { id, state: 'Succeeded' as const } : undefined)
    if (!output) return []
    const { manifestKey: key, reason, message } = output
    return [
      {
        id,
        state: output.state,
        ...(output.state === 'Succeeded' && { manifestKey: key ?? manifestKey(outputPrefix) }),
        ...(reason && { reason }),
        ...(message && { message }),
      },
    ]
  })
}
