import { KubeConfig } from '@kubernetes/client-node'
import { pino } from 'pino'
import t from 'tap'
import { openKubeCluster } from '../../../lib/runtime/kube-cluster.ts'
import { startApiServer } from '../../support/api-server.ts'
import { clusterContract } from '../../support/cluster-contract.ts'

const api = await startApiServer({ page: 2 })
t.teardown(() => api.close())
const config = new KubeConfig()
config.loadFromClusterAndUser({ name: 'test', server: api.url, skipTLSVerify: true }, { name: 'test' })

clusterContract(t, () => openKubeCluster({ log: pino({ level: 'silent' }), config }), { runsJobs: false })
