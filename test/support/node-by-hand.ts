import { setTimeout as sleep } from 'node:timers/promises'
import { KubeConfig } from '@kubernetes/client-node'
import { isClusterError, NODES, PODS } from '../../lib/runtime/kube/cluster.ts'
import { openKubeCluster } from '../../lib/runtime/kube/kube-cluster.ts'
import type { Pod } from '../../operator/jobs/batch.ts'
import type { TestCluster } from '../cluster/driver/cluster.ts'
import { eventually } from './eventually.ts'
import type { operatorPlane } from './operator-plane.ts'
import { quietLog } from './quiet-log.ts'

type Plane = Pick<Awaited<ReturnType<typeof operatorPlane>>, 'setStatus'> & { plane: TestCluster }
/** How long a pod that has ended is still there: an operator that has little of the processor sees how it ended. */
const LINGER_MS = 6000
interface BoundPod extends Pod {
  spec: { nodeName?: string }
}

/**
 * A node as the rest of the cluster sees it: ready, with room, alive. It starts nothing; but a pod that is to go is
 * told to stop, does so with exit code 143, and is removed, as a kubelet does it.
 */
export async function nodeByHand(
  t: { teardown(done: () => unknown): unknown },
  { plane, setStatus }: Plane,
  name: string,
) {
  const config = new KubeConfig()
  config.loadFromFile(plane.kubeconfig)
  const kube = openKubeCluster({ log: quietLog(), config, perSecond: 2000, burst: 2000, timeoutMs: 60_000 })
  const labels = { 'kubernetes.io/hostname': name }
  const node = { apiVersion: 'v1', kind: 'Node', metadata: { name, labels } }
  await plane.kubectlIn(JSON.stringify(node), 'create', '-f', '-')
  const room: Record<string, string> = { cpu: '64', memory: '256Gi', pods: '200', 'ephemeral-storage': '4Ti' }
  const beat = () =>
    setStatus(
      NODES,
      { namespace: '', name },
      {
        capacity: room,
        allocatable: room,
        conditions: [
          {
            type: 'Ready',
            status: 'True',
            reason: 'KubeletReady',
            message: 'by hand',
            lastHeartbeatTime: now(),
            lastTransitionTime: now(),
          },
        ],
      },
    )
  await beat()
  const heart = setInterval(() => void beat().catch(() => {}), 5_000)
  /** What the node does to a pod that it stops is a change of that pod as well. */
  const stopping = new Set<string | undefined>()
  kube.reflect<BoundPod>(PODS, {
    onSet(pod) {
      const { deletionTimestamp, uid } = pod.metadata
      if (pod.spec.nodeName !== name || !deletionTimestamp || stopping.has(uid)) return
      stopping.add(uid)
      void insist(pod)
    },
    onDelete() {},
  })
  /** Retries until the pod is gone. */
  const insist = (pod: BoundPod) =>
    eventually(
      `the end of ${pod.metadata.name}`,
      () =>
        stop(pod).then(
          () => true,
          (error: unknown) => isClusterError(error, 'NotFound'),
        ),
      60_000,
      500,
    ).catch(() => {})
  async function stop({ metadata, status }: BoundPod): Promise<void> {
    const key = { namespace: metadata.namespace ?? '', name: metadata.name }
    const hasEnded = status?.phase === 'Failed' || status?.phase === 'Succeeded'
    if (!hasEnded) {
      const running = status?.containerStatuses?.filter((c) => c.state?.running) ?? []
      const terminated = { exitCode: 143, reason: 'Error', startedAt: now(), finishedAt: now() }
      const containerStatuses = running.map((c) => ({ ...c, ready: false, state: { terminated } }))
      await setStatus(PODS, key, { phase: 'Failed', ...(running.length > 0 && { containerStatuses }) })
      await sleep(LINGER_MS)
    }
    await plane.kubectl(
      'delete',
      'pod',
      key.name,
      `--namespace=${key.namespace}`,
      '--grace-period=0',
      '--force',
      '--wait=false',
      '--ignore-not-found',
    )
  }
  t.teardown(async () => {
    clearInterval(heart)
    await kube.close()
  })
  await eventually('the node is believed', async () => {
    const { spec } = JSON.parse(await plane.kubectl('get', 'node', name, '-o', 'json')) as {
      spec: { taints?: object[] }
    }
    return !spec.taints
  })
  return {
    name,
    /** Offers so many GPUs from now on. */
    async offer(gpus: number): Promise<void> {
      room['nvidia.com/gpu'] = String(gpus)
      await beat()
    },
  }
}

const now = () => new Date().toISOString().replace(/\.\d+Z$/, 'Z')
