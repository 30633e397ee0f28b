import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import t, { type Test } from 'tap'
import { eventually } from '../../support/eventually.ts'
import type { TestCluster } from '../driver/cluster.ts'
import { startControlPlane } from '../driver/control-plane.ts'
import { everyProcess } from '../driver/proc.ts'
import { chooseProvider } from '../driver/provider.ts'
import { sweepDeadRuns } from '../driver/run-folder.ts'
import { startChild } from '../driver/start-child.ts'

/** The control planes that other suites rely on. */
const provider = await chooseProvider('control-plane')
const skip = provider.kind !== 'modules' && 'these are about clusters from modules'

const processesOf = async (folder: string) =>
  (await everyProcess()).filter((p) => p.args.some((a) => a.includes(folder)))
const configMaps = async ({ kubectl }: TestCluster) => (await kubectl('get', 'configmaps', '-o', 'name')).split('\n')

let shared: ReturnType<typeof startControlPlane> | undefined
/** One for all tests, which goes through what they do to it. */
const living = () => {
  shared ??= started(t)
  return shared
}

t.test('two at once do not know of each other, and a stopped one leaves nothing', { skip }, async (t) => {
  const [one, two] = [await started(t), await living()]
  await one.kubectl('create', 'configmap', 'only-in-one')
  t.ok((await configMaps(one)).includes('configmap/only-in-one'))
  t.notOk((await configMaps(two)).includes('configmap/only-in-one'))
  t.match(one.version, /^v1\.\d+\.\d+$/, 'it knows its version')
  const folder = dirname(one.kubeconfig)
  // The scheduler is started again if it went too early.
  const isWhole = async () => (await processesOf(folder)).length === 4
  await eventually('etcd, API server, controllers, scheduler', isWhole)
  await one.stop()
  t.same(await processesOf(folder), [])
  t.notOk(existsSync(folder))
  t.ok((await configMaps(two)).length > 0, 'the other one goes on')
})

t.test('controllers work from the start, and again after they were stopped', { skip }, async (t) => {
  const { kubectl, faults } = await living()
  const jobs = async () => (await kubectl('get', 'pods', '-o', 'name')).split('\n').filter(Boolean).length
  await kubectl('create', 'job', 'first', '--image=nothing')
  await eventually('the pod of a Job', async () => (await jobs()) === 1)
  await faults?.stopControllers()
  await kubectl('create', 'job', 'second', '--image=nothing')
  await new Promise((resolve) => setTimeout(resolve, 2000))
  t.equal(await jobs(), 1, 'nobody makes the second pod')
  await faults?.startControllers()
  await eventually('the pod of the second Job', async () => (await jobs()) === 2)
})

t.test('an API server that was killed comes back with what it knew', { skip }, async (t) => {
  const plane = await living()
  await plane.kubectl('create', 'configmap', 'kept')
  await plane.faults?.killApiServer()
  await t.rejects(plane.kubectl('get', 'configmaps'), 'while it is away')
  await plane.faults?.startApiServer()
  t.ok((await configMaps(plane)).includes('configmap/kept'), 'under the same address')
})

const GONE = /"code":410|too old resource version/
t.test('after compaction a watch from before is answered 410', { skip }, async (t) => {
  const { kubectl, faults } = await living()
  const made = await kubectl('create', 'configmap', 'seen', '-o', 'json')
  const { resourceVersion } = (JSON.parse(made) as { metadata: { resourceVersion: string } }).metadata
  const watch = () =>
    kubectl(
      'get',
      '--raw',
      `/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1&resourceVersion=${resourceVersion}`,
    ).catch(String)
  t.notMatch(await watch(), GONE, 'not so before')
  await faults?.compactEtcd()
  // An API server that has just come may still fill its caches when the second of a watch is over.
  await eventually('the answer 410', async () => GONE.test(await watch()))
})

t.test('what a killed owner leaves behind is cleared away, and nothing else', { skip }, async (t) => {
  const other = await living()
  const { child, line } = await startChild('control-plane-child.ts')
  t.teardown(() => void child.kill('SIGKILL'))
  const folder = dirname(line)
  await eventually('all four', async () => (await processesOf(folder)).length === 4)
  t.ok(existsSync(folder))
  child.kill('SIGKILL')
  await eventually('the end of its processes, which die with it', async () => (await processesOf(folder)).length === 0)
  // Whoever starts a cluster at this moment may be faster.
  await sweepDeadRuns()
  await eventually('the end of its files', () => !existsSync(folder))
  t.ok((await configMaps(other)).length > 0, 'a cluster whose owner lives is left alone')
})

async function started(t: Test) {
  const plane = await startControlPlane()
  t.teardown(() => plane.stop())
  return plane
}
