import { describedCluster } from '../driver/description.ts'
import { makeNamespace } from './namespace.ts'
import { API_URL, prepareRelease, RELEASE } from './release.ts'
import { startServices } from './services.ts'

/**
 * `npm run test:cluster -- --up`: what the chart needs, beside a node, for somebody who wants to install it by hand.
 * Stays until a signal and leaves nothing.
 */
const cluster = describedCluster()
if (!cluster?.nodeAddress) throw new Error('This is started by `npm run test:cluster -- --up`')
const closers: (() => Promise<void>)[] = []
const owner = { teardown: (close: () => Promise<void>) => void closers.unshift(close) }
const signal = new Promise((resolve) => {
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, resolve)
})
try {
  const services = await startServices(owner, cluster.nodeAddress)
  // Not deleted at the end: it goes with its cluster, sooner.
  const namespace = await makeNamespace({ teardown: () => {} }, cluster, 'keepsake')
  await namespace.kubectl('label', 'namespace', namespace.name, 'pod-security.kubernetes.io/enforce=restricted')
  const { values } = await prepareRelease(owner, cluster, namespace, services)
  const { id, email, password } = services.users[0] ?? {}
  console.log(`
Kubernetes ${cluster.version} with a node; beside it Postgres, NATS with JetStream, Ceph's S3 and an identity provider.
Everything lives in a network of its own. In another terminal:

  ${process.env['KEEPSAKE_ENTER']} bash
  export KUBECONFIG=${cluster.kubeconfig} PATH=${process.env['PATH']?.split(':')[0]}:$PATH
  kubectl config set-context --current --namespace=${namespace.name}
  helm install ${RELEASE} charts/keepsake --values ${values} --wait

The Secrets that these values name are made. The API will be at ${API_URL}; the identity provider knows
${email} (subject ${id}), whose password is ${password}

Ctrl-C removes all of it.`)
  await signal
} finally {
  for (const close of closers) await close().catch(console.error)
}
process.exit()
