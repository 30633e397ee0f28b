import { type Cluster, type KubeObject, NODES, type Reflection } from '../../lib/runtime/kube/cluster.ts'

interface Node extends KubeObject {
  status?: { allocatable?: Record<string, string> }
}

export interface GpuNodes {
  /** Must be complete before the first reconcile. */
  cache: Reflection<KubeObject>
  /** Whether any node has an allocatable GPU, busy or not. */
  any(): boolean
}

const GPU = 'nvidia.com/gpu'
const gpusOf = (node: Node) => Number(node.status?.allocatable?.[GPU] ?? 0)

/** Watches the nodes. GPU nodes come and go with the autoscaler, so an answer is valid for one Job only. */
export function followGpuNodes(cluster: Pick<Cluster, 'reflect'>, onInterrupted: () => void): GpuNodes {
  const withGpu = new Set<string>()
  const cache = cluster.reflect<Node>(
    NODES,
    {
      onSet(node) {
        if (gpusOf(node) > 0) withGpu.add(node.metadata.name)
        else withGpu.delete(node.metadata.name)
      },
      onDelete: (node) => void withGpu.delete(node.metadata.name),
      onError: onInterrupted,
    },
    { trim: trimNode },
  )
  return { cache, any: () => withGpu.size > 0 }
}

function trimNode({ metadata, status }: Node): Node {
  const { name, uid, resourceVersion } = metadata
  const gpus = status?.allocatable?.[GPU]
  return {
    metadata: { name, ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) },
    ...(gpus !== undefined && { status: { allocatable: { [GPU]: gpus } } }),
  }
}
