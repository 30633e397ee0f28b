import { eventually } from '../../support/eventually.ts'
import { IMAGE } from './operator.ts'
import type { Ground } from './world.ts'

const GPU = 'nvidia.com/gpu'

/** Makes the node offer so many GPUs, as a device plugin would; resolves when the kubelet has made them allocatable. */
export async function setGpus({ cluster, node }: Pick<Ground, 'cluster' | 'node'>, gpus: number): Promise<void> {
  const patch = { status: { capacity: { [GPU]: String(gpus) }, allocatable: { [GPU]: String(gpus) } } }
  await cluster.kubectl('patch', 'node', node, '--subresource=status', '--type=merge', '-p', JSON.stringify(patch))
  const look = ['get', 'node', node, '-o', `jsonpath={.status.allocatable.nvidia\\.com/gpu}`]
  await eventually(`${gpus} GPUs`, async () => (await cluster.kubectl(...look)) === String(gpus), 240_000, 500)
}

/** A pod that asks for the GPU and does nothing with it. */
export const gpuHolder = (name: string) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name },
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [
      {
        name: 'holder',
        image: IMAGE,
        command: ['node', '--eval', 'setInterval(() => {}, 60_000)'],
        resources: { limits: { [GPU]: '1' } },
      },
    ],
  },
})
