import { KubeConfig } from '@kubernetes/client-node'
import { pino } from 'pino'
import t from 'tap'
import { openKubeCluster } from '../../../../lib/runtime/kube/kube-cluster.ts'
import { startApiServer } from '../../../support/api-server.ts'
import { clusterContract } from '../../../support/cluster-contract.ts'

// A small server that speaks the same HTTP; a real one is asked in test/cluster/control-plane/cluster-contract.ts.
const config = new KubeConfig()
const api = await startApiServer({ page: 2 })
t.teardown(() => api.close())
config.loadFromClusterAndUser({ name: 'test', server: api.url, skipTLSVerify: true }, { name: 'test' })

clusterContract(t, () => openKubeCluster({ log: pino({ level: 'silent' }), config }), { runsJobs: false })
