import type { JobResult } from '../../lib/contract/job-result.ts'
import { type ObjectKey, PODS, type Resource } from '../../lib/runtime/kube/cluster.ts'
import type { JobCondition, Pod } from '../../operator/jobs/batch.ts'

export interface Ending {
  exitCode: number
  /** Of the container: Completed, Error, OOMKilled. */
  reason?: string
  result?: JobResult
  /** Of the pod: Evicted, DeadlineExceeded. */
  podReason?: string
  podMessage?: string
}

/** What the kubelet writes of a container that ran and was collected before it looked again; seen at an eviction. */
const LOST = {
  state: { waiting: { reason: 'ContainerCreating' } },
  lastState: {
    terminated: { exitCode: 137, reason: 'ContainerStatusUnknown', message: 'The container used to be Running' },
  },
}

interface Hands {
  live(owner: string): Promise<Pod>
  setStatus(resource: Resource, key: ObjectKey, status: object): Promise<void>
}

/** What a kubelet would say about the newest pod of a TranscodeJob that has not ended. */
export function podsByHand({ live, setStatus }: Hands) {
  const keyOf = ({ metadata }: Pod) => ({ namespace: metadata.namespace ?? '', name: metadata.name })
  const set = (pod: Pod, status: object) => setStatus(PODS, keyOf(pod), status)
  const containerThat = (is: object) => [
    { name: 'media', image: 'keepsake:1', imageID: '', ready: false, restartCount: 0, ...is },
  ]
  const container = (state: object, ready = false) => containerThat({ state, ready })

  async function run(owner: string): Promise<Pod> {
    const pod = await live(owner)
    await set(pod, { phase: 'Running', containerStatuses: container({ running: { startedAt: seconds() } }, true) })
    return pod
  }

  async function endPod(pod: Pod, { exitCode, reason, result, podReason, podMessage }: Ending): Promise<void> {
    const terminated = {
      exitCode,
      reason: reason ?? (exitCode === 0 ? 'Completed' : 'Error'),
      startedAt: seconds(),
      finishedAt: seconds(),
      ...(result && { message: JSON.stringify(result) }),
    }
    await set(pod, {
      phase: exitCode === 0 ? 'Succeeded' : 'Failed',
      ...(podReason && { reason: podReason }),
      ...(podMessage && { message: podMessage }),
      containerStatuses: container({ terminated }),
    })
  }

  const withCondition = ({ status }: Pod, change: JobCondition): JobCondition[] => [
    ...(status?.conditions?.filter((c) => c.type !== change.type) ?? []),
    { lastTransitionTime: seconds(), ...change },
  ]

  /**
   * Ends without a word about how its program ended. The Job controller waits from when the pod became unready, as
   * kubelet and node controller write it; without that from when the pod was made, and the next pod may come at once.
   */
  async function endLost(pod: Pod, status: object = {}): Promise<void> {
    const conditions = withCondition(pod, { type: 'Ready', status: 'False' })
    await set(pod, { phase: 'Failed', conditions, ...status })
  }

  /** Evicted, without a word about how its program ended. */
  async function evictLost(owner: string, message: string): Promise<void> {
    const pod = await run(owner)
    await endLost(pod, { reason: 'Evicted', message, containerStatuses: containerThat(LOST) })
  }

  return {
    setPod: set,
    run,
    endPod,
    endLost,
    evictLost,
    /** Runs and ends; answers with the pod that it was. */
    async end(owner: string, ending: Ending): Promise<Pod> {
      const pod = await run(owner)
      await endPod(pod, ending)
      return pod
    },
    async succeed(owner: string, result: JobResult = { ok: true, accelerator: 'cpu' }): Promise<void> {
      await endPod(await run(owner), { exitCode: 0, result })
    },
    async wait(owner: string, reason: string, message: string): Promise<void> {
      await set(await live(owner), { phase: 'Pending', containerStatuses: container({ waiting: { reason, message } }) })
    },
    async podCondition(owner: string, change: JobCondition): Promise<Pod> {
      const pod = await live(owner)
      const conditions = withCondition(pod, change)
      await set(pod, { conditions })
      return { ...pod, status: { ...pod.status, conditions } }
    },
  }
}

/** metav1.Time has no fractions. */
const seconds = () => new Date().toISOString().replace(/\.\d+Z$/, 'Z')
