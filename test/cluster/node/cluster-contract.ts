import { KubeConfig } from '@kubernetes/client-node'
import t from 'tap'
import { openKubeCluster } from '../../../lib/runtime/kube/kube-cluster.ts'
import { clusterContract } from '../../support/cluster-contract.ts'
import { established } from '../../support/established.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { nodeCluster } from '../support.ts'

/** What every Cluster promises, with Jobs that become pods of the product's image and a garbage collector. */
t.setTimeout(1_800_000)
const cluster = await nodeCluster(t)
await cluster.kubectl('apply', '--server-side', '--force-conflicts', '-f', 'crds/transcodejobs.yaml')
await established(cluster.kubectl, '-f', 'crds/transcodejobs.yaml')
const namespace = `contract-${Date.now()}`
await cluster.kubectl('create', 'namespace', namespace)
t.teardown(() => cluster.kubectl('delete', 'namespace', namespace, '--wait=false'))
const config = new KubeConfig()
config.loadFromFile(cluster.kubeconfig)
// The image has no shell.
const script = `
  const [what, number] = process.argv[1].split(' ')
  if (what === 'exit') process.exit(Number(number))
  setTimeout(() => {}, number * 1000)`
clusterContract(t, () => openKubeCluster({ log: quietLog(), config }), {
  namespace,
  runsJobs: true,
  image: 'localhost/keepsake:dev',
  shell: ['node', '-e', script],
})
