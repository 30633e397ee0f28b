import { startNodeCluster } from './node.ts'
import { PAUSE_IMAGE } from './node-files.ts'

/** Starts a cluster with a running pod, says where, and lives until it is killed. */
const { kubectl, run } = await startNodeCluster()
await kubectl('create', 'deployment', 'idle', `--image=${PAUSE_IMAGE}`)
await kubectl('rollout', 'status', 'deployment/idle', '--timeout=240s')
console.log(run.path)
setInterval(() => {}, 60_000)
