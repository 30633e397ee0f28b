import type { KubeObject, ObjectMeta } from '../../lib/runtime/kube/cluster.ts'

/** The parts of batch/v1 and v1 that this operator reads or writes. */
export interface JobCondition {
  type: string
  status: string
  reason?: string
  message?: string
  lastTransitionTime?: string
}

export interface JobSpec {
  suspend?: boolean
  ttlSecondsAfterFinished?: number
  parallelism?: number
  /** Not set initially. The operator sets one second to end the Job and its pod gracefully. */
  activeDeadlineSeconds?: number
  [other: string]: unknown
}

export interface JobStatus {
  conditions?: JobCondition[]
  startTime?: string
  completionTime?: string
  active?: number
  succeeded?: number
  failed?: number
  /** Pods that the Job is about to count; `trimJob` adds them to `failed`. */
  uncountedTerminatedPods?: { failed?: string[] }
}

export interface Job extends KubeObject {
  metadata: ObjectMeta
  spec: JobSpec
  status?: JobStatus
}

export interface Terminated {
  exitCode: number
  reason?: string
  message?: string
  startedAt?: string
  finishedAt?: string
}

export interface ContainerStatus {
  name: string
  /** Empty until the container was created. */
  containerID?: string
  lastState?: { terminated?: Terminated }
  state?: {
    waiting?: { reason?: string; message?: string }
    running?: { startedAt?: string }
    terminated?: Terminated
  }
}

export interface Pod extends KubeObject {
  status?: {
    phase?: string
    reason?: string
    message?: string
    conditions?: JobCondition[]
    containerStatuses?: ContainerStatus[]
    initContainerStatuses?: ContainerStatus[]
  }
}

/** The condition, if `True`. (`SuccessCriteriaMet` and `FailureTarget` come earlier, while pods still run.) */
export const jobCondition = (job: Job, type: 'Complete' | 'Failed'): JobCondition | undefined =>
  job.status?.conditions?.find((c) => c.type === type && c.status === 'True')

export const isJobFinished = (job: Job): boolean =>
  jobCondition(job, 'Complete') !== undefined || jobCondition(job, 'Failed') !== undefined

export const isOwnedBy = (object: KubeObject, uid: string): boolean =>
  object.metadata.ownerReferences?.some((o) => o.uid === uid) ?? false

export const isTerminalPod = (pod: Pod): boolean => pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed'
