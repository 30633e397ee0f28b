import t from 'tap'
import { openLocalCluster } from '../../../local/cluster/local-cluster.ts'
import { clusterContract } from '../../support/cluster-contract.ts'

clusterContract(t, () => openLocalCluster({ maxPods: 2, backoffBaseMs: 20 }), { runsJobs: true })
