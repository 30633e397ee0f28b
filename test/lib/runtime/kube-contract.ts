import { KubeConfig } from '@kubernetes/client-node'
import { pino } from 'pino'
import t from 'tap'
import { openKubeCluster } from '../../../lib/runtime/kube-cluster.ts'
import { startApiServer } from '../../support/api-server.ts'
import { clusterContract } from '../../support/cluster-contract.ts'

// `KUBECONFIG_TEST=file` runs the same contract against a real API server that has the CRD; otherwise a small one
// speaks the same HTTP. Never the user's current context by accident.
const config = new KubeConfig()
const real = process.env['KUBECONFIG_TEST']
if (real) {
  config.loadFromFile(real)
} else {
  const api = await startApiServer({ page: 2 })
  t.teardown(() => api.close())
  config.loadFromClusterAndUser({ name: 'test', server: api.url, skipTLSVerify: true }, { name: 'test' })
}

clusterContract(t, () => openKubeCluster({ log: pino({ level: 'silent' }), config }), { runsJobs: false })
