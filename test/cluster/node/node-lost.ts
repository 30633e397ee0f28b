import t, { type Test } from 'tap'
import { succeededOf } from '../../../crds/run.ts'
import { openS3Store } from '../../../lib/runtime/object-store/s3.ts'
import { eventually } from '../../support/eventually.ts'
import { openGround } from '../node-support/ground.ts'
import { holdEncoder, killPod } from '../node-support/pod-processes.ts'
import { openWorld } from '../node-support/world.ts'

/** The only node goes away while it encodes, and comes back. */
t.setTimeout(1_800_000)
const ground = await openGround(t)
const { cluster, node } = ground
const { faults } = cluster
if (!faults) {
  t.plan(0, 'this cluster is not ours to break')
  process.exit()
}
const OUT_OF_SERVICE = 'node.kubernetes.io/out-of-service=nodeshutdown:NoExecute'
const READY = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
const untilReadinessIs = (is: string) =>
  eventually(
    `readiness of the node ${is}`,
    async () => (await cluster.kubectl('get', 'node', node, '-o', READY)) === is,
    240_000,
    1000,
  )

/** Gone until `bringBack`, or until the end of the test: nothing can be tidied up on a node that nobody hears of. */
async function loseNode(t: Test): Promise<() => Promise<void>> {
  let back: Promise<void> | undefined
  const bringBack = () =>
    (back ??= faults?.startKubelet().then(async () => void (await untilReadinessIs('True'))) ?? Promise.resolve())
  t.teardown(bringBack)
  await faults?.stopKubelet()
  await untilReadinessIs('Unknown')
  return bringBack
}

t.test('the node is away for a while: what runs goes on, and what was cut off is tried again', async (t) => {
  const w = await openWorld(t, ground, 'away')
  await w.submit('spared', 'long')
  await w.submit('cut', 'long')
  const [spared, cut] = [await w.runningPod('spared'), await w.runningPod('cut')]
  const release = await holdEncoder(spared.metadata.uid ?? '')
  await holdEncoder(cut.metadata.uid ?? '')

  const bringBack = await loseNode(t)
  for (const name of ['spared', 'cut']) {
    const seen = await w.until(name, 'NodeUnreachable', (r) => succeededOf(r.status)?.reason === 'NodeUnreachable')
    t.match(seen.status, { phase: 'Running' })
    t.match(succeededOf(seen.status), { status: 'Unknown', message: /has not reported since/ })
  }
  killPod(cut.metadata.uid ?? '')
  release()
  const store = openS3Store(ground.s3)
  t.teardown(() => store.close())
  const manifest = `out/${w.name}/spared/manifest.json`
  await eventually('the manifest, written while the node is away', () => store.head(manifest), 400_000, 500)
  t.equal(succeededOf((await w.resource('spared'))?.status)?.status, 'Unknown', 'that it has ended is not known yet')

  await bringBack()
  const [kept, again] = [await w.untilFinished('spared'), await w.untilFinished('cut')]
  t.match(kept.status, { phase: 'Succeeded', attempts: 1 })
  t.match(again.status, { phase: 'Succeeded', attempts: 2 })
})

t.test('a node declared out of service gives its work back, which counts as no attempt', async (t) => {
  const w = await openWorld(t, ground, 'gone')
  await w.submit('moved', 'middle', { maxAttempts: 1 })
  const pod = await w.runningPod('moved')
  await holdEncoder(pod.metadata.uid ?? '')
  const bringBack = await loseNode(t)
  t.teardown(() => cluster.kubectl('taint', 'node', node, `${OUT_OF_SERVICE}-`).catch(() => ''))
  await cluster.kubectl('taint', 'node', node, OUT_OF_SERVICE)
  const isWaiting = (reason?: string) => reason === 'Unschedulable'
  const waiting = await w.until('moved', 'Unschedulable', (r) => isWaiting(succeededOf(r.status)?.reason))
  t.match(succeededOf(waiting.status), { status: 'Unknown', message: /untolerated taint/ })

  await bringBack()
  await cluster.kubectl('taint', 'node', node, `${OUT_OF_SERVICE}-`)
  const done = await w.untilFinished('moved')
  t.match(done.status, { phase: 'Succeeded', attempts: 1 })
  t.notOk(
    (await w.podsOf('moved')).some((p) => p.metadata.uid === pod.metadata.uid),
    'another pod did it',
  )
})
