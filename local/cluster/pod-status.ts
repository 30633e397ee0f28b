import type { Container } from './batch-schemas.ts'
import type { Exit } from './container-process.ts'
import {
  type ContainerState,
  type ContainerStatus,
  type Pod,
  type PodStatus,
  setCondition,
  type Terminated,
  timeOf,
} from './types.ts'

type States = ReadonlyMap<string, ContainerState>

export function terminated(
  exit: Exit,
  end: { startedMs: number; endedMs: number; message: string; isOutOfMemory: boolean },
): Terminated {
  const message = exit.startError ?? end.message
  return {
    exitCode: exit.exitCode,
    ...(exit.signal !== undefined && { signal: exit.signal }),
    reason: reasonOf(exit, end.isOutOfMemory),
    startedAt: timeOf(end.startedMs),
    finishedAt: timeOf(end.endedMs),
    ...(message && { message }),
  }
}

function reasonOf(exit: Exit, isOutOfMemory: boolean): Terminated['reason'] {
  if (exit.startError) return 'StartError'
  if (isOutOfMemory) return 'OOMKilled'
  return exit.exitCode === 0 ? 'Completed' : 'Error'
}

/** The status of a pod that has not ended: Pending until a container runs. */
export function runningStatus(pod: Pod, states: States, nowMs: number): PodStatus {
  const isRunning = pod.spec.containers.some((c) => states.get(c.name)?.running)
  return withContainers(pod, states, nowMs, isRunning ? 'Running' : 'Pending')
}

/** The status of a pod that has ended. A pod whose containers never ran has failed. */
export function finalStatus(pod: Pod, states: States, nowMs: number, isLate: boolean): PodStatus {
  const succeeded = !isLate && pod.spec.containers.every((c) => states.get(c.name)?.terminated?.exitCode === 0)
  const status = withContainers(pod, states, nowMs, succeeded ? 'Succeeded' : 'Failed')
  if (!isLate) return status
  const message = 'Pod was active on the node longer than the specified deadline'
  return { ...status, reason: 'DeadlineExceeded', message }
}

function withContainers(pod: Pod, states: States, nowMs: number, phase: PodStatus['phase']): PodStatus {
  const containerStatuses = pod.spec.containers.map((c) => statusOf(c, states))
  const sidecars = pod.spec.initContainers?.map((c) => statusOf(c, states))
  const isReady = phase === 'Running' && containerStatuses.every((c) => c.ready)
  const ready = { type: 'Ready', status: isReady ? 'True' : 'False' } as const
  return {
    ...pod.status,
    phase,
    startTime: pod.status?.startTime ?? timeOf(nowMs),
    conditions: setCondition(pod.status?.conditions, ready, nowMs),
    containerStatuses,
    ...(sidecars && { initContainerStatuses: sidecars }),
  }
}

function statusOf({ name, image = '' }: Container, states: States): ContainerStatus {
  const state = states.get(name) ?? { waiting: { reason: 'ContainerCreating' } }
  const isRunning = state.running !== undefined
  return { name, image, ready: isRunning, started: isRunning, restartCount: 0, state }
}
