import t from 'tap'
import { eventually } from '../../support/eventually.ts'
import { nodeCluster } from '../support.ts'

/** The node that other suites rely on: real pods, seen and reported by a real kubelet. */
const PAUSE = 'localhost/pause:1'
const { kubectl, kubectlIn, faults, provider } = await nodeCluster(t)
const skip = provider !== 'modules' && 'these are about clusters from modules'
const namespace = `driver-${Date.now()}`
await kubectl('create', 'namespace', namespace)
t.teardown(() => kubectl('delete', 'namespace', namespace, '--wait=false'))
const k = (...args: string[]) => kubectl(`--namespace=${namespace}`, ...args)

t.test('a Job runs as a pod, and its end and its words are known', { skip }, async (t) => {
  await k('create', 'job', 'well', `--image=${PAUSE}`, '--', '/pause', 'exit', '0')
  await k('wait', '--for=condition=Complete', 'job/well', '--timeout=240s')
  t.equal(await k('logs', 'job/well'), 'ending with 0\n')
  const job = {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: 'badly' },
    spec: {
      backoffLimit: 0,
      template: {
        spec: {
          restartPolicy: 'Never',
          containers: [{ name: 'main', image: PAUSE, command: ['/pause', 'exit', '42'] }],
        },
      },
    },
  }
  await kubectlIn(JSON.stringify(job), `--namespace=${namespace}`, 'apply', '-f', '-')
  await k('wait', '--for=condition=Failed', 'job/badly', '--timeout=240s')
  const path = 'jsonpath={.items[0].status.containerStatuses[0].state.terminated.exitCode}'
  t.equal(await k('get', 'pods', '-l', 'job-name=badly', '-o', path), '42')
})

t.test('pods reach the API server through its service', { skip }, async (t) => {
  // kube-proxy has done its work when the service's address answers from the node's network, where this runs.
  const status = await eventually('an answer', async () => {
    const answer = await fetch('http://10.96.0.1:443/').catch(() => undefined)
    return answer?.status
  })
  t.equal(status, 400, 'a server that wants TLS')
})

t.test('a node whose kubelet is silent is found out, and comes back', { skip }, async (t) => {
  await faults?.stopKubelet()
  await k('wait', '--for=condition=Ready=Unknown', 'node/node-1', '--timeout=240s')
  await faults?.startKubelet()
  const ready = await k('get', 'node', 'node-1', '-o', 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')
  t.equal(ready, 'True')
  await k('create', 'job', 'after', `--image=${PAUSE}`, '--', '/pause', 'exit', '0')
  await k('wait', '--for=condition=Complete', 'job/after', '--timeout=240s')
})
