import { createServer, request, type Server } from 'node:http'
import { type ClusterFaults, kubectlWith, type TestCluster } from './cluster.ts'

/** Where a suite in a process of its own finds the cluster that the runner has started. */
export const DESCRIPTION = 'KEEPSAKE_TEST_CLUSTER'

type Description = Pick<TestCluster, 'provider' | 'kubeconfig' | 'version' | 'nodeAddress'> & {
  kubectl: string
  /** A unix socket behind which faults are made; such sockets do not care about network namespaces. */
  faultSocket?: string
}

const FAULTS = [
  'killApiServer',
  'startApiServer',
  'compactEtcd',
  'stopControllers',
  'startControllers',
  'stopKubelet',
  'startKubelet',
  'loadImage',
] as const satisfies (keyof ClusterFaults)[]

/** Environment that leads a suite to this cluster. */
export function describeCluster(cluster: TestCluster, more: Pick<Description, 'kubectl' | 'faultSocket'>) {
  const { provider, kubeconfig, version, nodeAddress } = cluster
  const description: Description = { provider, kubeconfig, version, ...(nodeAddress && { nodeAddress }), ...more }
  return { [DESCRIPTION]: JSON.stringify(description) }
}

/** The cluster that the environment describes. */
export function describedCluster(): TestCluster | undefined {
  const text = process.env[DESCRIPTION]
  if (!text) return undefined
  const { kubectl, faultSocket, ...cluster } = JSON.parse(text) as Description
  const faults = faultSocket && { faults: remoteFaults(faultSocket) }
  return { ...cluster, ...kubectlWith([kubectl], cluster.kubeconfig), ...faults }
}

/** Makes faults for suites, one at a time, until it is closed. */
export async function serveFaults(faults: ClusterFaults, socketPath: string): Promise<Server> {
  let last: Promise<unknown> = Promise.resolve()
  const server = createServer((call, response) => {
    const chunks: Buffer[] = []
    call
      .on('data', (chunk: Buffer) => chunks.push(chunk))
      .once('end', () => {
        const [name, argument] = JSON.parse(Buffer.concat(chunks).toString()) as [keyof ClusterFaults, string]
        last = last
          .then(() => faults[name](argument))
          .then(
            () => response.end(),
            (error: unknown) => response.writeHead(500).end(String(error)),
          )
      })
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(socketPath, resolve))
  return server
}

function remoteFaults(socketPath: string): ClusterFaults {
  const named = FAULTS.map((name) => [name, (argument?: string) => ask(socketPath, [name, argument])])
  return Object.fromEntries(named) as ClusterFaults
}

function ask(socketPath: string, body: unknown): Promise<void> {
  return new Promise((resolve, reject) => {
    const call = request({ socketPath, method: 'POST' }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      response.once('error', reject)
      response.once('end', () => (response.statusCode === 200 ? resolve() : reject(new Error(text))))
    })
    call.once('error', reject).end(JSON.stringify(body))
  })
}
