import { armFailpoint } from '../../lib/runtime/failpoint.ts'
import { JOBS } from '../../lib/runtime/kube/cluster.ts'
import { openLocalCluster } from '../../local/cluster/local-cluster.ts'
import { aJob } from './local-jobs.ts'

/** A process to be killed: opens a cluster in the folder given, runs the script given as a Job and waits. */
const [folder = '', script = '', point] = process.argv.slice(2)
armFailpoint(point)
process.once('SIGTERM', () => process.exit(3))
const cluster = openLocalCluster({ folder, maxPods: 1 })
await cluster.create(JOBS, aJob('doomed', script))
