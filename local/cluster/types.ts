import type { KubeObject, ObjectMeta } from '../../lib/runtime/cluster.ts'
import type { JobSpec, PodSpec } from './batch-schemas.ts'

/** Metadata as the store keeps it: what the wire type leaves out is the store's own business. */
export interface StoredMeta extends ObjectMeta {
  generateName?: string
  deletionGracePeriodSeconds?: number
}

export interface ObjectCondition {
  type: string
  status: 'True' | 'False' | 'Unknown'
  reason?: string
  message?: string
  lastProbeTime?: string
  lastTransitionTime?: string
}

export interface Terminated {
  exitCode: number
  signal?: number
  reason: 'Completed' | 'Error' | 'OOMKilled' | 'StartError'
  startedAt: string
  finishedAt: string
  message?: string
}

export interface ContainerState {
  waiting?: { reason: string; message?: string }
  running?: { startedAt: string }
  terminated?: Terminated
}

export interface ContainerStatus {
  name: string
  image: string
  ready: boolean
  started: boolean
  restartCount: number
  state: ContainerState
}

export interface PodStatus {
  phase: 'Pending' | 'Running' | 'Succeeded' | 'Failed'
  reason?: string
  message?: string
  startTime?: string
  conditions?: ObjectCondition[]
  containerStatuses?: ContainerStatus[]
}

export interface Pod extends KubeObject {
  metadata: StoredMeta
  spec: PodSpec
  status?: PodStatus
}

export interface JobStatus {
  conditions?: ObjectCondition[]
  startTime?: string
  completionTime?: string
  active?: number
  ready?: number
  terminating?: number
  succeeded?: number
  failed?: number
}

export interface Job extends KubeObject {
  metadata: StoredMeta
  spec: JobSpec
  status?: JobStatus
}

export const CONTROLLER_UID = 'batch.kubernetes.io/controller-uid'
export const JOB_NAME = 'batch.kubernetes.io/job-name'
/** On a pod that its Job has not counted yet: without it a pod deleted meanwhile would be forgotten, as in Kubernetes. */
export const JOB_TRACKING = 'batch.kubernetes.io/job-tracking'

/** Annotation of a pod that was deleted because its Job was suspended. */
export const SUSPENDED = 'local.keepsake.dev/suspended'

/** The API server keeps whole seconds, so do we: code that needs more would fail on a real cluster. */
export const timeOf = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`

/** setTimeout fires at once when asked for more than this many milliseconds. */
const LONGEST_TIMER_MS = 2 ** 31 - 1
export const timerMs = (seconds: number): number => Math.min(Math.ceil(seconds * 1000), LONGEST_TIMER_MS)

export const isTerminal = (pod: Pod): boolean => pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed'

export const conditionIn = (list: readonly ObjectCondition[] | undefined, type: string) =>
  list?.find((c) => c.type === type)

/** The list with this condition in it; `lastTransitionTime` moves only when the status flips. */
export function setCondition(
  list: readonly ObjectCondition[] | undefined,
  next: ObjectCondition,
  nowMs: number,
): ObjectCondition[] {
  const old = conditionIn(list, next.type)
  const lastTransitionTime = old?.status === next.status ? (old.lastTransitionTime ?? timeOf(nowMs)) : timeOf(nowMs)
  const condition = { ...next, lastTransitionTime }
  return old ? (list ?? []).map((c) => (c === old ? condition : c)) : [...(list ?? []), condition]
}
