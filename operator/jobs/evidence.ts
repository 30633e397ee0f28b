import { EXIT, type JobResult, PERMANENT_EXITS, parseJobResult } from '../../lib/contract/job-result.ts'
import { isJobFinished, isTerminalPod, type Job, type JobCondition, type Pod, type Terminated } from './batch.ts'
import { CONTAINER } from './template.ts'

/** The status of a pod's container; undefined for a pod that the kubelet rejected. */
const containerOf = (pod: Pod | undefined) => pod?.status?.containerStatuses?.find((c) => c.name === CONTAINER)
const terminatedOf = (pod: Pod | undefined): Terminated | undefined => containerOf(pod)?.state?.terminated

/**
 * The last state that the kubelet reports for a container that it saw running but no longer found when the pod ended;
 * the container's state is then `ContainerCreating` again. No other case sets it: restartPolicy is Never.
 */
const lostOf = (pod: Pod | undefined): Terminated | undefined => containerOf(pod)?.lastState?.terminated

/** True when the program was started: only then does a failure say anything about the media item or the program. */
export function hasRun(pod: Pod): boolean {
  const container = containerOf(pod)
  if (container?.state?.running || lostOf(pod)) return true
  const ended = container?.state?.terminated
  if (!ended || ended.reason === 'StartError' || ended.reason === 'ContainerCannotRun') return false
  // The kubelet reports ContainerStatusUnknown even for a container whose image was never pulled.
  return ended.reason !== 'ContainerStatusUnknown' || Boolean(container?.containerID)
}

/** The condition that marks a pod as disrupted by the cluster: evicted, preempted, or its node drained or lost. */
export const disruptionOf = (pod: Pod | undefined): JobCondition | undefined =>
  pod?.status?.conditions?.find((c) => c.type === 'DisruptionTarget' && c.status === 'True')

/**
 * Since when the pod's node has not reported. The node lifecycle controller sets Ready to False on the pods of a lost
 * node, while the kubelet's last ContainersReady stays True. The pods have no readiness gates, so no other cause looks
 * the same.
 */
export function unheardSince(pod: Pod): string | undefined {
  const condition = (type: string) => pod.status?.conditions?.find((c) => c.type === type)
  const ready = condition('Ready')
  if (ready?.status !== 'False' || condition('ContainersReady')?.status !== 'True') return undefined
  return ready.lastTransitionTime ?? 'an unknown time'
}

/**
 * False for a pod that was deleted before its program started. It says as little as one that is gone, which it soon is:
 * the Job counts both in the same way, and only while it is there does it look like a pod that the kubelet rejected.
 */
export const isTelling = (pod: Pod): boolean =>
  pod.metadata.deletionTimestamp === undefined ||
  pod.status?.phase !== 'Failed' ||
  hasRun(pod) ||
  disruptionOf(pod) !== undefined

export const wasOutOfMemory = (pod: Pod | undefined): boolean => terminatedOf(pod)?.reason === 'OOMKilled'

const createdAt = (pod: Pod) => pod.metadata.creationTimestamp ?? ''
const inOrder = (pods: readonly Pod[]): Pod[] =>
  [...pods].sort((a, b) => createdAt(a).localeCompare(createdAt(b)) || a.metadata.name.localeCompare(b.metadata.name))

/** The pod of the current attempt: the newest one that has not ended. */
export const livePod = (pods: readonly Pod[]): Pod | undefined =>
  inOrder(pods)
    .filter((p) => !isTerminalPod(p))
    .at(-1)

/** The pod of the last attempt that ran and has ended. */
export const lastEnded = (pods: readonly Pod[]): Pod | undefined =>
  inOrder(pods)
    .filter((p) => isTerminalPod(p) && hasRun(p))
    .at(-1)

/** Whether no attempt follows this one: it succeeded, or its exit code is permanent. */
export const isLast = (pod: Pod): boolean =>
  pod.status?.phase === 'Succeeded' || PERMANENT_EXITS.includes(terminatedOf(pod)?.exitCode ?? -1)

/** The program's own result, if it wrote one. */
export const resultOf = (pod: Pod | undefined): JobResult | undefined =>
  pod ? parseJobResult(terminatedOf(pod)?.message) : undefined

/**
 * What the program that succeeded wrote. Undefined where that is lost: its node had no room for it, or the pod is gone.
 * The success is not: a program exits with 0 only after the manifests of all its outputs are in the store.
 */
export function successOf(pods: readonly Pod[]): JobResult | undefined {
  const result = resultOf(pods.find((p) => p.status?.phase === 'Succeeded'))
  return result?.ok ? result : undefined
}

/** After this time without a pod, a quota, policy or webhook probably keeps the Job from creating one. */
export const NO_POD_MS = 30_000

/** The time since which a Job should have had a pod; undefined while it is suspended. */
export function startOfJob({ metadata, status }: Job): string | undefined {
  // The Job controller sets a new startTime when it resumes a suspended Job.
  const isSuspended = status?.conditions?.some((c) => c.type === 'Suspended' && c.status === 'True')
  return isSuspended ? undefined : (status?.startTime ?? metadata.creationTimestamp)
}

/**
 * Whether the cached pods are enough for a verdict. The cache may lag behind a finished Job, and after a start of the
 * operator it lacks pods that had succeeded, which are needed until their result is recorded. `wasRunning`: status says
 * that an attempt runs, so there must be a pod.
 */
export function isConclusive(job: Job, pods: readonly Pod[], now: Date, wasRunning: boolean): boolean {
  if (!isJobFinished(job)) {
    if (livePod(pods) !== undefined || pods.some((p) => p.status?.phase === 'Succeeded')) return true
    if (wasRunning) return false
    const age = now.getTime() - Date.parse(startOfJob(job) ?? now.toISOString())
    return pods.length > 0 || age < NO_POD_MS
  }
  const ended = pods.filter(isTerminalPod)
  const wanted = (job.status?.failed ?? 0) + (job.status?.succeeded ?? 0)
  return ended.length === pods.length && ended.length >= Math.max(1, wanted)
}

const BY_EXIT: Record<number, [reason: string, message: string]> = {
  [EXIT.badSpec]: ['BadSpec', 'The program rejected its specification'],
  [EXIT.inputMissing]: ['InputMissing', 'The source is missing from the object store'],
  [EXIT.inputBad]: ['CorruptInput', 'The source cannot be decoded'],
  [EXIT.encoderMissing]: ['EncoderMissing', 'The requested encoder is not available'],
  [EXIT.transient]: ['StorageUnavailable', 'The object store or the network failed'],
  [EXIT.noSpace]: ['NoSpace', 'There was not enough scratch space'],
  [EXIT.gpuBusy]: ['GpuBusy', 'The GPU had no free capacity'],
  [EXIT.verificationFailed]: ['VerificationFailed', 'The converted files did not pass verification'],
  [EXIT.terminated]: ['Terminated', 'The program was stopped'],
}

/** Why an attempt failed, from the most precise source; undefined for a pod without evidence. */
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
  // A program that received SIGTERM does not know why; the status of an evicted pod does.
  if (said && (said.reason !== 'Terminated' || !pod.status?.reason)) return said
  if (pod.status?.reason) return { reason: pod.status.reason, message: pod.status.message ?? '' }
  return failureByExit(ended)
}

/** The fallback, when neither the program nor the pod gives a reason. */
function failureByExit({ exitCode, reason, message = '' }: Terminated): { reason: string; message: string } {
  if (reason === 'ContainerStatusUnknown') return { reason, message }
  const known = BY_EXIT[exitCode] ?? ['Failed', `The program ended with exit code ${exitCode}`]
  return { reason: known[0], message: known[1] }
}
