import t, { type Test } from 'tap'
import type { Pod } from '../../../operator/jobs/batch.ts'
import { eventually } from '../../support/eventually.ts'
import { nodeByHand } from '../../support/node-by-hand.ts'
import { type OperatorWorld, operatorPlane } from '../../support/operator-plane.ts'
import { controlPlaneWithoutNodes } from '../support.ts'

t.setTimeout(900_000)

/** So long that an operator that has little of the processor still sees that a pod waits. */
const GPU_WAIT_S = 8
const GIVEN_UP = `no GPU was free within ${GPU_WAIT_S} s`
const p = await operatorPlane(t, await controlPlaneWithoutNodes(t))
// Alone: a machine that stands still for as long as a lease would end it.
const alone = { LEADER_ELECTION: 'false', GPU_AVAILABLE: 'detect', GPU_WAIT_SECONDS: String(GPU_WAIT_S) }
const operator = p.operator(alone)
await operator.logged('workers started')

const file = t
let node: Awaited<ReturnType<typeof nodeByHand>>

async function submit(t: Test, spec: object = {}) {
  const w = await p.world(t)
  await w.submit('med-1', spec)
  return w
}
const asksForGpu = (job: unknown) => JSON.stringify(job).includes('"nvidia.com/gpu":"1"')
/** One that asks for a GPU. Of those that come before the operator has heard that a node has one, none does. */
const submitForGpu = (t: Test, spec: object = {}) =>
  eventually('a Job that asks for a GPU', async () => {
    const one = await submit(t, spec)
    return asksForGpu(await one.awaitJob('med-1')) ? one : undefined
  })
const bound = (w: Awaited<ReturnType<typeof submit>>, name = 'med-1') =>
  eventually(`a node for ${name}`, async () => {
    const pod = await w.live(name)
    return (pod as unknown as { spec: { nodeName?: string } }).spec.nodeName === undefined ? undefined : pod
  })

/** Jobs and pods of a resource that may be gone itself. */
const leftOf = (w: Pick<OperatorWorld, 'kubectl'>, uid: string | undefined) =>
  w.kubectl('get', 'jobs,pods', '-l', `media.keepsake.dev/owner-uid=${uid}`, '-o', 'name')

async function evict({ namespace }: { namespace: string }, { metadata: { name } }: Pod): Promise<void> {
  const review = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name, namespace } }
  const path = `/api/v1/namespaces/${namespace}/pods/${name}/eviction`
  await p.plane.kubectlIn(JSON.stringify(review), 'create', '--raw', path, '-f', '-')
}

t.test('gpu on a cluster without nodes, then without GPUs: it waits and says for what', async (t) => {
  const w = await submit(t, { accelerator: 'gpu' })
  t.ok(asksForGpu(await w.awaitJob('med-1')))
  await w.says('med-1', /^Unschedulable: no nodes available to schedule pods/)
  node = await nodeByHand(file, p, 'node-1')
  await w.says('med-1', /^Unschedulable: 0\/1 nodes are available: 1 Insufficient nvidia\.com\/gpu/)
  t.match(await w.status('med-1'), { phase: 'Pending', gpuGivenUp: undefined })
  const uid = (await w.resource('med-1'))?.metadata.uid
  await w.kubectl('delete', 'tj', 'med-1') // or it takes the GPU that comes
  await eventually('no pod', async () => (await leftOf(w, uid)).trim() === '', 240_000, 200)
})

t.test('auto, where no node has a GPU, does not ask for one', async (t) => {
  const w = await submit(t)
  t.notOk(asksForGpu(await w.awaitJob('med-1')))
})

t.test('auto asks for a GPU as soon as a node has one; those that wait in vain go on with the CPU', async (t) => {
  await node.offer(1)
  const w = await submitForGpu(t)
  await bound(w)
  await w.run('med-1')

  const second = await submit(t)
  const first = await second.awaitJob('med-1')
  t.ok(asksForGpu(first))
  await second.told('med-1', /^Warning Unschedulable: 0\/1 nodes are available: 1 Insufficient nvidia\.com\/gpu/)
  const demanding = await submit(t, { accelerator: 'gpu' })

  await second.told('med-1', new RegExp(`^Warning GpuUnavailable: Continuing on the CPU: ${GIVEN_UP}: 0/1 nodes`))
  const other = await eventually('another Job', async () =>
    (await second.jobs()).find((j) => j.metadata.uid !== first.metadata.uid),
  )
  t.notOk(asksForGpu(other))
  await bound(second)
  await second.succeed('med-1', { ok: true, accelerator: 'cpu', acceleratorReason: 'as specified' })
  await second.says('med-1', 'Succeeded')
  t.match(await second.status('med-1'), {
    attempts: 1,
    restarts: 1,
    accelerator: 'cpu',
    acceleratorReason: new RegExp(`^${GIVEN_UP}: 0/1 nodes are available: 1 Insufficient nvidia`),
  })
  await eventually('one Job left', async () => (await second.jobs()).length === 1)

  await demanding.says('med-1', 'Unschedulable')
  t.equal((await demanding.status('med-1'))?.gpuGivenUp, undefined, 'gpu means gpu')
  await w.succeed('med-1', { ok: true, accelerator: 'gpu' })
  await bound(demanding)
  await demanding.run('med-1')
  await demanding.says('med-1', 'Running')
  await demanding.succeed('med-1', { ok: true, accelerator: 'gpu' }) // or the next test finds no GPU
  await w.says('med-1', 'Succeeded')
  t.match(await w.status('med-1'), { accelerator: 'gpu', restarts: undefined })
})

t.test('an attempt that the cluster took away is none, also if the GPU is given up after it', async (t) => {
  await node.offer(1)
  const w = await submitForGpu(t, { maxAttempts: 1 })
  t.ok(asksForGpu(await bound(w)), 'it has the GPU')
  const pod = await w.run('med-1')
  await w.says('med-1', /^Running: Attempt 1 of 1/)
  await node.offer(0)
  await evict(w, pod)
  await w.told('med-1', /^Warning Interrupted: /)
  await w.told('med-1', /^Warning GpuUnavailable: /)
  t.match(await w.status('med-1'), { attempts: 0 })
  await eventually('a Job without a GPU', async () => !asksForGpu(await w.awaitJob('med-1')))
  await bound(w)
  await w.run('med-1')
  await w.says('med-1', /^Running: Attempt 1 of 1 is running$/)
  await w.succeed('med-1')
  await w.says('med-1', 'Succeeded')
  t.match(await w.status('med-1'), { attempts: 1, restarts: 1 })
})

t.test('running programs: what takes their pods away', async (t) => {
  await node.offer(0)
  t.jobs = 8
  const side = () => ({ buffered: true, timeout: 600_000 })

  t.test('suspend and resume, twice, cost no attempt', side(), async (t) => {
    const w = await submit(t, { maxAttempts: 1, accelerator: 'cpu' })
    for (let i = 0; i < 2; i++) {
      await bound(w)
      const pod = await w.run('med-1')
      await w.says('med-1', /^Running: Attempt 1 of 1/)
      await w.edit('med-1', { suspend: true })
      await w.says('med-1', 'Suspended')
      await eventually('the pod to go', async () =>
        (await w.pods('med-1')).every((other) => other.metadata.uid !== pod.metadata.uid),
      )
      t.match(await w.condition('med-1'), { reason: 'Suspended' })
      await w.edit('med-1', { suspend: false })
    }
    await bound(w)
    await w.succeed('med-1')
    await w.says('med-1', 'Succeeded')
    t.match(await w.status('med-1'), { attempts: 1 })
  })

  t.test('a Job deleted while its program runs: the next one starts when that has ended', side(), async (t) => {
    const w = await submit(t, { accelerator: 'cpu' })
    await bound(w)
    const pod = await w.run('med-1')
    await w.says('med-1', 'Running')
    await w.kubectl('delete', 'job', (await w.awaitJob('med-1')).metadata.name, '--wait=false')
    await eventually('another pod', async () =>
      (await w.pods('med-1')).some((other) => other.metadata.uid !== pod.metadata.uid),
    )
    await bound(w)
    await w.run('med-1')
    await w.says('med-1', /^Running: Attempt 2 of 3/)
  })

  t.test('kubectl delete ends the program and leaves nothing', side(), async (t) => {
    const w = await submit(t, { accelerator: 'cpu' })
    await bound(w)
    await w.run('med-1')
    const uid = (await w.resource('med-1'))?.metadata.uid
    await w.kubectl('delete', 'tj', 'med-1')
    const isGone = async () => (await leftOf(w, uid)).trim() === ''
    await eventually('nothing left', isGone, 240_000, 200).catch(async (error: Error) => {
      throw new Error(`${error.message}: ${await w.kubectl('get', 'jobs,pods', '-o', 'yaml')}`)
    })
  })
})

t.test('drain and taint', async (t) => {
  const w = await submit(t, { maxAttempts: 1, accelerator: 'cpu' })
  const other = await submit(t, { maxAttempts: 1, accelerator: 'cpu' })
  await Promise.all([bound(w), bound(other)])
  const evicted = await w.run('med-1')
  const tainted = await other.run('med-1')
  await evict(w, evicted)
  // The taint manager would otherwise write its own reason over that of a pod that is still there.
  await w.said('med-1', /^Interrupted: .*EvictionByEvictionAPI/)
  await eventually('the evicted pod to go', async () =>
    (await w.pods('med-1')).every((one) => one.metadata.uid !== evicted.metadata.uid),
  )
  await p.plane.kubectl('taint', 'node', 'node-1', 'lost=yes:NoExecute')
  // A taint that goes before the taint manager has seen it takes no pod away.
  await other.said('med-1', /^Interrupted: .*DeletionByTaintManager/)
  await p.plane.kubectl('taint', 'node', 'node-1', 'lost-')
  for (const [one, pod, why] of [
    [w, evicted, 'EvictionByEvictionAPI'],
    [other, tainted, 'DeletionByTaintManager'],
  ] as const) {
    t.test(`a pod that is taken away by ${why} is replaced, and it was no attempt`, async (t) => {
      await one.told('med-1', new RegExp(`^Warning Interrupted: .* does not count as an attempt: ${why}`))
      await eventually('another pod', async () => (await one.live('med-1')).metadata.uid !== pod.metadata.uid)
      await bound(one)
      await one.succeed('med-1')
      await one.says('med-1', 'Succeeded')
      t.match(await one.status('med-1'), { attempts: 1 })
      t.equal((await one.jobs()).length, 1)
    })
  }
})
