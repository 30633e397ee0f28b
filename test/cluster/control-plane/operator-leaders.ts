import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type KubeObject, LEASES } from '../../../lib/runtime/kube/cluster.ts'
import { eventually } from '../../support/eventually.ts'
import { jobsEverMade, type OperatorWorld, operatorPlane } from '../../support/operator-plane.ts'
import type { OperatorProcess } from '../../support/operator-process.ts'
import { tcpProxy } from '../../support/tcp-proxy.ts'
import { controlPlaneWithoutNodes } from '../support.ts'

t.setTimeout(900_000)
t.jobs = 8
const side = () => ({ buffered: true, timeout: 600_000 }) // tap writes into it: one for each
/** As client-go has them: 15 s from when the other one saw the last renewal, which it looks for every 2 to 4.4 s. */
const LEASE_MS = 15_000
const TRY_MS = 4_400
/** What a busy machine may take for starting to do what is due. */
const SLACK_MS = 10_000
/** The wall clock, which the operators write down, may be set a little while they measure with another one. */
const CLOCK_MS = 500

interface Lease extends KubeObject {
  spec?: { holderIdentity?: string; leaseTransitions?: number; acquireTime?: string; renewTime?: string }
}

const cluster = await controlPlaneWithoutNodes(t)
const p = await operatorPlane(t, cluster)
const made = jobsEverMade(p.kube)
interface Held {
  /** Nothing while the lease is given back. */
  by: string
  at: number
  renewedAt: number
  /** Who held it until then. */
  before: Held | undefined
}
/** When which operator took which lease, as it says itself: what we hear of it may come late. */
const acquired = new Map<string, Held>()
p.kube.reflect<Lease>(LEASES, {
  onSet({ metadata, spec }) {
    const by = spec?.holderIdentity?.split('_')[0] ?? ''
    const renewedAt = Date.parse(spec?.renewTime ?? '')
    const known = acquired.get(metadata.namespace ?? '')
    const at = known?.by === by ? known.at : Date.parse(spec?.acquireTime ?? spec?.renewTime ?? '')
    acquired.set(metadata.namespace ?? '', { by, at, before: known?.by === by ? known.before : known, renewedAt })
  },
  onDelete() {},
})
const leads = (w: OperatorWorld, who: string) =>
  eventually(`${who} to lead`, () => {
    const now = acquired.get(w.namespace)
    return now?.by === who ? now : undefined
  })

/** When an operator has written a line of its log with these words. */
function saidAt(operator: OperatorProcess, words: string): number {
  const line = operator
    .output()
    .split('\n')
    .find((text) => text.includes(words))
  if (!line) throw new Error(`It never said "${words}":\n${operator.output().slice(-2000)}`)
  return Date.parse((JSON.parse(line) as { time: string }).time)
}

/** `a` leads, `b` waits, and five resources have been seen to. */
async function pair(t: Test, kubeconfigOfA?: string) {
  const w = await p.world(t)
  const a = w.operator({ IDENTITY: 'a', ...(kubeconfigOfA && { KUBECONFIG: kubeconfigOfA }) })
  await a.logged('workers started')
  const b = w.operator({ IDENTITY: 'b' })
  await b.logged('operator started')
  await leads(w, 'a')
  const submit = async (from: number, to: number) => {
    for (let i = from; i < to; i++) await w.submit(`med-${i}`)
  }
  const done = async (n: number) => {
    for (let i = 0; i < n; i++) await w.says(`med-${i}`, 'Unschedulable')
    // The Jobs have been made long before; that we hear of them may take a moment more.
    await eventually(`${n} Jobs`, () => (made.get(w.namespace)?.size ?? 0) >= n)
    return made.get(w.namespace)?.size
  }
  await submit(0, 5)
  t.equal(await done(5), 5)
  return { w, a, b, submit, done }
}

t.test(
  'a leader that is killed is followed within the time of its lease, and nothing is made twice',
  side(),
  async (t) => {
    const { w, a, submit, done } = await pair(t)
    const killedAt = Date.now()
    a.child.kill('SIGKILL')
    await submit(5, 10)
    const { at, before } = await leads(w, 'b')
    const tookMs = at - killedAt
    t.ok(tookMs < LEASE_MS + TRY_MS + SLACK_MS, `${Math.round(tookMs)} ms`)
    t.equal(before?.by, 'a')
    const unheardMs = at - (before?.renewedAt ?? at)
    t.ok(unheardMs > LEASE_MS - CLOCK_MS, `and not while it might still live: ${unheardMs} ms after its last renewal`)
    t.equal(await done(10), 10)
    t.comment(`followed after ${Math.round(tookMs)} ms`)
  },
)

t.test('a leader that is told to stop gives the lease back at once', side(), async (t) => {
  const { w, a, submit, done } = await pair(t)
  const toldAt = Date.now()
  a.child.kill('SIGTERM')
  await submit(5, 10)
  t.equal(await a.ended, 0)
  const { at, before } = await leads(w, 'b')
  const tookMs = at - toldAt
  t.match(before, { by: '', before: { by: 'a' } }, 'it was free before the other one took it')
  const givenMs = (before?.at ?? 0) - toldAt
  t.ok(givenMs < SLACK_MS, `given back after ${givenMs} ms`)
  const freeMs = at - (before?.at ?? 0)
  t.ok(freeMs < TRY_MS + SLACK_MS, `taken after ${freeMs} ms, and not when it would have expired`)
  t.equal(await done(10), 10)
  t.comment(`followed after ${Math.round(tookMs)} ms`)
})

t.test('a leader that no longer reaches the API server ends before another one may lead', side(), async (t) => {
  const server = new URL(p.config.getCurrentCluster()?.server ?? '')
  const proxy = await tcpProxy(server)
  const text = readFileSync(cluster.kubeconfig, 'utf8').replaceAll(server.host, `${server.hostname}:${proxy.port}`)
  const kubeconfig = join(tmpdir(), `operator-through-proxy-${process.pid}`)
  writeFileSync(kubeconfig, text, { mode: 0o600 })
  t.teardown(async () => {
    rmSync(kubeconfig)
    await proxy.close()
  })
  const { w, a, submit, done } = await pair(t, kubeconfig)
  const cutAt = Date.now()
  proxy.cut()
  await submit(5, 10)
  t.equal(await a.ended, 1)
  const endedAt = saidAt(a, 'The lease is lost')
  const { at, before } = await leads(w, 'b')
  t.ok(endedAt - cutAt < 10_000 + SLACK_MS, `ended after ${Math.round(endedAt - cutAt)} ms`)
  t.ok(at > endedAt, `${Math.round(at - endedAt)} ms before the other one led`)
  t.equal(before?.by, 'a')
  const unheardMs = at - (before?.renewedAt ?? at)
  t.ok(unheardMs > LEASE_MS - CLOCK_MS, `which waited for ${unheardMs} ms after the last renewal`)
  t.equal(await done(10), 10)
  t.comment(`ended after ${Math.round(endedAt - cutAt)} ms, followed after ${Math.round(at - cutAt)} ms`)
})

t.test('a leader that was frozen and wakes up when another one leads writes nothing, and ends', side(), async (t) => {
  const { w, a, b, submit, done } = await pair(t)
  a.child.kill('SIGSTOP')
  const frozenAt = performance.now()
  await leads(w, 'b')
  await submit(5, 8)
  t.equal(await done(8), 8)
  // There is work that nobody does: whoever believes that it leads would do it.
  b.child.kill('SIGSTOP')
  await submit(8, 10)
  a.child.kill('SIGCONT')
  t.equal(await a.ended, 1, `after ${Math.round(performance.now() - frozenAt)} ms`)
  t.match(a.output(), /The lease is lost/)
  await sleep(500)
  t.equal(made.get(w.namespace)?.size, 8, 'no Job of its making')
  for (const name of ['med-8', 'med-9']) t.equal(await w.status(name), undefined, 'and no word')
  b.child.kill('SIGCONT')
  w.operator({ IDENTITY: 'c' }) // a busy machine may have stopped `b` for longer than its lease allows
  t.equal(await done(10), 10)
})

t.test('two that start together: one leads, and only its workers work', side(), async (t) => {
  const w = await p.world(t)
  const both = ['a', 'b'].map((IDENTITY) => w.operator({ IDENTITY }))
  await Promise.race(both.map((o) => o.logged('workers started')))
  await Promise.all(both.map((o) => o.logged('operator started')))
  for (let i = 0; i < 10; i++) await w.submit(`med-${i}`)
  for (let i = 0; i < 10; i++) await w.says(`med-${i}`, 'Unschedulable')
  await eventually('ten Jobs', () => (made.get(w.namespace)?.size ?? 0) >= 10)
  t.equal(made.get(w.namespace)?.size, 10)
  t.equal(both.filter((o) => o.output().includes('workers started')).length, 1)
})
