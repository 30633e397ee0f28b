import { PODS } from '../../lib/runtime/kube/cluster.ts'
import type { Store } from './store.ts'
import { conditionIn, isTerminal, type ObjectCondition, type Pod, setCondition } from './types.ts'

export const NODE_NAME = 'local'
const GPU = 'nvidia.com/gpu'

export interface SchedulerOptions {
  /** How many pods run at once. */
  maxPods: number
  gpus: number
  /** The value of each priority class; 0 for a class that is missing. */
  priorityClasses: Readonly<Record<string, number>>
}

/** Binds pending pods to the one node while it has capacity: highest priority first, then the oldest. */
export function runScheduler(store: Store, options: SchedulerOptions): { close(): void } {
  let scheduled: NodeJS.Immediate | undefined
  const stop = store.listen(({ resource }) => {
    if (resource.plural === PODS.plural && resource.group === PODS.group) scheduled ??= setImmediate(schedule)
  })

  const priorityOf = (pod: Pod) => options.priorityClasses[pod.spec.priorityClassName ?? ''] ?? 0

  function schedule(): void {
    scheduled = undefined
    const pods = store.all<Pod>(PODS).filter((pod) => !isTerminal(pod))
    const bound = pods.filter((pod) => pod.spec.nodeName !== undefined)
    const free = { pods: options.maxPods - bound.length, gpus: options.gpus - sum(bound.map(gpusOf)) }
    const waiting = pods
      .filter((pod) => pod.spec.nodeName === undefined && !pod.metadata.deletionTimestamp)
      .sort((a, b) => priorityOf(b) - priorityOf(a))
    for (const pod of waiting) {
      const missing = gpusOf(pod) > free.gpus ? `Insufficient ${GPU}` : free.pods < 1 ? 'Too many pods' : undefined
      if (missing) {
        refuse(store, pod, `0/1 nodes are available: 1 ${missing}.`)
        continue
      }
      free.pods -= 1
      free.gpus -= gpusOf(pod)
      bind(store, pod)
    }
  }

  return {
    close() {
      stop()
      clearImmediate(scheduled)
    },
  }
}

const keyOf = ({ metadata }: Pod) => ({ namespace: metadata.namespace ?? '', name: metadata.name })
const sum = (numbers: number[]) => numbers.reduce((a, b) => a + b, 0)
const gpusOf = (pod: Pod) => sum(pod.spec.containers.map((c) => Number(c.resources?.limits?.[GPU] ?? 0)))

function setScheduled(store: Store, pod: Pod, condition: ObjectCondition): void {
  const status = pod.status ?? { phase: 'Pending' }
  store.setStatus<Pod>(PODS, keyOf(pod), {
    ...status,
    conditions: setCondition(status.conditions, condition, Date.now()),
  })
}

function refuse(store: Store, pod: Pod, message: string): void {
  if (conditionIn(pod.status?.conditions, 'PodScheduled')?.message === message) return
  setScheduled(store, pod, { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message })
}

function bind(store: Store, pod: Pod): void {
  setScheduled(store, pod, { type: 'PodScheduled', status: 'True' })
  store.update<Pod>(PODS, keyOf(pod), (current) => ({ ...current, spec: { ...current.spec, nodeName: NODE_NAME } }))
}
