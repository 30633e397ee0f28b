import t from 'tap'
import { succeededOf } from '../../../crds/run.ts'
import { eventually } from '../../support/eventually.ts'
import { gpuHolder, setGpus } from '../node-support/gpu.ts'
import { openGround } from '../node-support/ground.ts'
import { openWorld, type World } from '../node-support/world.ts'

/** GPUs as the scheduler sees them: the node says that it has one, and no driver is there to encode with. */
t.setTimeout(1_800_000)
const ground = await openGround(t)
const offer = (gpus: number) => setGpus(ground, gpus)
t.before(() => offer(0))
t.teardown(() => offer(0))

const untilReason = (w: World, name: string, reason: string) =>
  w.until(name, reason, (r) => succeededOf(r.status)?.reason === reason)

async function untilFree(w: World, name: string): Promise<void> {
  await w.kubectl('delete', 'pod', name)
  await eventually('no holder', async () => !/holder/.test(await w.kubectl('get', 'pods', '-o', 'name')), 240_000, 200)
}

/** What the program in the pod has said itself. The pod may be gone by then: the Job controller deletes those it ends. */
const FOUND_NO_NVENC = { status: 'False', reason: 'EncoderMissing', message: /no NVENC on this node/ }

t.test('a GPU that no node has is waited for, visibly', async (t) => {
  const w = await openWorld(t, ground, 'gpu-absent')
  await w.submit('wants', 'short', { accelerator: 'gpu' })
  const waiting = await untilReason(w, 'wants', 'Unschedulable')
  t.match(succeededOf(waiting.status), { status: 'Unknown', message: /Insufficient nvidia\.com\/gpu/ })
  await offer(1)
  const done = await w.untilFinished('wants')
  t.match(succeededOf(done.status), FOUND_NO_NVENC)
})

t.test('of two that want the only GPU one waits, and runs when it is free', async (t) => {
  await offer(1)
  const w = await openWorld(t, ground, 'gpu-busy')
  await w.apply(gpuHolder('holder'))
  await w.kubectl('wait', '--for=condition=Ready', 'pod/holder', '--timeout=240s')
  await w.submit('second', 'short', { accelerator: 'gpu' })
  const waiting = await untilReason(w, 'second', 'Unschedulable')
  t.match(succeededOf(waiting.status), { message: /Insufficient nvidia\.com\/gpu/ })
  await untilFree(w, 'holder')
  const done = await w.untilFinished('second')
  t.match(succeededOf(done.status), FOUND_NO_NVENC)
})

t.test('auto does not wait for a busy GPU for ever: the CPU does it, and status says why', async (t) => {
  await offer(1)
  const w = await openWorld(t, ground, 'gpu-auto', {
    operator: { GPU_AVAILABLE: 'detect', GPU_WAIT_SECONDS: '5' },
  })
  await w.apply(gpuHolder('holder'))
  await w.kubectl('wait', '--for=condition=Ready', 'pod/holder', '--timeout=240s')
  await w.submit('patient', 'short', { accelerator: 'auto' })
  const done = await w.untilFinished('patient')
  t.match(succeededOf(done.status), { status: 'True', reason: 'Succeeded' })
  t.match(done.status, { accelerator: 'cpu', gpuGivenUp: /no GPU was free within 5 s: .*nvidia\.com\/gpu/ })
  await w.told('patient', 'GpuUnavailable', (e) => e.reason === 'GpuUnavailable')
  t.equal((await w.jobsOf('patient')).length, 1, 'the Job that asked for a GPU is gone')
})

t.test('auto on a node whose GPU cannot encode goes on with the CPU in the same pod', async (t) => {
  await offer(1)
  const w = await openWorld(t, ground, 'gpu-useless', { operator: { GPU_AVAILABLE: 'detect' } })
  await w.submit('adapts', 'short', { accelerator: 'auto' })
  const done = await w.untilFinished('adapts')
  t.match(done.status, {
    phase: 'Succeeded',
    accelerator: 'cpu',
    acceleratorReason: /no NVENC on this node/,
    attempts: 1,
  })
  const [pod] = await w.podsOf('adapts')
  t.match(pod?.spec.containers[0]?.resources.limits, { 'nvidia.com/gpu': '1' })
})

t.test('auto asks for no GPU where no node has any', async (t) => {
  await offer(0)
  const w = await openWorld(t, ground, 'gpu-none', { operator: { GPU_AVAILABLE: 'detect' } })
  await w.submit('modest', 'short', { accelerator: 'auto' })
  const done = await w.untilFinished('modest')
  t.match(done.status, { phase: 'Succeeded', accelerator: 'cpu', attempts: 1 })
  // Success alone would also follow from asking in vain and giving up: that it never asked is what this is about.
  t.equal(done.status?.gpuGivenUp, undefined)
  const pods = await w.podsOf('modest')
  t.equal(pods.length, 1)
  t.notOk('nvidia.com/gpu' in (pods[0]?.spec.containers[0]?.resources.limits ?? {}))
})
