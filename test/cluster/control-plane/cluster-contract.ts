import { KubeConfig } from '@kubernetes/client-node'
import t from 'tap'
import { openKubeCluster } from '../../../lib/runtime/kube/kube-cluster.ts'
import { clusterContract } from '../../support/cluster-contract.ts'
import { established } from '../../support/established.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { controlPlane } from '../support.ts'

/** What every Cluster promises, kept by a real API server. Jobs are run in node/cluster-contract.ts. */
t.setTimeout(900_000)
const plane = await controlPlane(t)
await plane.kubectl('apply', '--server-side', '-f', 'crds/transcodejobs.yaml')
await established(plane.kubectl, '-f', 'crds/transcodejobs.yaml')
const config = new KubeConfig()
config.loadFromFile(plane.kubeconfig)
clusterContract(t, () => openKubeCluster({ log: quietLog(), config }), { runsJobs: false })
