import type { Test } from 'tap'
import { KINDS } from '../../../crds/kinds.ts'
import { nodeCluster } from '../support.ts'
import { startS3 } from './services.ts'
import { type Ground, nodeName, prepareSources } from './world.ts'

/** The node's cluster with the custom resources, an S3 server beside it, and sources in that. */
export async function openGround(t: Test, start = startS3): Promise<Ground> {
  const cluster = await nodeCluster(t)
  const address = cluster.nodeAddress
  if (address === undefined || cluster.provider === 'given') {
    t.plan(0, 'the pods of this cluster are not processes of this machine, which has to stop some of them')
    process.exit()
  }
  for (const { plural } of KINDS) {
    await cluster.kubectl('apply', '--server-side', '--force-conflicts', '-f', `crds/${plural}.yaml`)
  }
  const [s3, node] = await Promise.all([start(t, address), nodeName(cluster)])
  await prepareSources(s3)
  return { cluster, address, node, s3 }
}
