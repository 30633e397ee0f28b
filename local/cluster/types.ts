import type { KubeObject, ObjectMeta } from '../../lib/runtime/kube/cluster.ts'
import type { Container, JobSpec, PodSpec } from './batch-schemas.ts'

/** Metadata as the store keeps it, with fields that the wire type does not have. */
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
  initContainerStatuses?: ContainerStatus[]
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
  /** Of an Indexed Job, such as `0,2-4`. */
  completedIndexes?: string
  failedIndexes?: string
}

export interface Job extends KubeObject {
  metadata: StoredMeta
  spec: JobSpec
  status?: JobStatus
}

export const CONTROLLER_UID = 'batch.kubernetes.io/controller-uid'
export const JOB_NAME = 'batch.kubernetes.io/job-name'
/** The finalizer of a pod that its Job has not counted yet, as in Kubernetes: a deleted pod is still counted. */
export const JOB_TRACKING = 'batch.kubernetes.io/job-tracking'

/** Label and annotation of a pod of an Indexed Job. */
export const COMPLETION_INDEX = 'batch.kubernetes.io/job-completion-index'

/** Annotation of a pod that was deleted because its Job was suspended. */
export const SUSPENDED = 'local.keepsake.dev/suspended'

/** Whole seconds, as on a real API server: code that needs more would fail there. */
export const timeOf = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`

/** setTimeout fires at once when asked for more than this many milliseconds. */
const MAX_TIMER_MS = 2 ** 31 - 1
export const timerMs = (seconds: number): number => Math.min(Math.ceil(seconds * 1000), MAX_TIMER_MS)

/** The sidecars first, in the order in which they start. */
export const allContainers = ({ spec }: Pod): Container[] => [...(spec.initContainers ?? []), ...spec.containers]

export const isTerminal = (pod: Pod): boolean => pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed'

export const conditionIn = (list: readonly ObjectCondition[] | undefined, type: string) =>
  list?.find((c) => c.type === type)

/** The list with this condition; `lastTransitionTime` changes only when its status changes. */
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
