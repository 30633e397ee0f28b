import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { type Cluster, ClusterError, type KubeObject, LEASES } from '../../../lib/runtime/kube/cluster.ts'
import { type LeaderOptions, seekLeadership } from '../../../operator/runtime/leader.ts'
import { eventually } from '../../support/eventually.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { storeCluster } from '../../support/store-cluster.ts'

const lease = { namespace: 'media', name: 'operator' }
const LOOK_MS = 5
/**
 * Stands still while this process is not let run: a candidate loses its lease on a busy machine because of what a test
 * does to it, never because of the machine.
 */
const runningMs = (() => {
  let ms = 0
  let last = performance.now()
  const look = () => {
    const now = performance.now()
    ms += Math.min(now - last, 2 * LOOK_MS)
    last = now
  }
  setInterval(look, LOOK_MS).unref()
  return () => ms
})()
/** A tenth of the real times; the Lease itself counts in whole seconds. */
const times = { leaseDurationMs: 1000, renewDeadlineMs: 400, retryPeriodMs: 60 }
interface Lease extends KubeObject {
  spec: { holderIdentity?: string; leaseTransitions?: number; leaseDurationSeconds?: number; renewTime: string }
}

function candidates(t: { teardown(fn: () => Promise<void>): unknown }) {
  const api = storeCluster()
  const seek = (identity: string, options: Partial<LeaderOptions> = {}) => {
    const clock = { ...times, monotonicMs: runningMs }
    const leader = seekLeadership({ cluster: api.cluster, lease, identity, log: quietLog(), ...clock, ...options })
    t.teardown(() => leader.resign())
    return leader
  }
  return { ...api, seek, stored: () => api.store.find<Lease>(LEASES, lease) }
}
/** A network that can be cut. */
function network(cluster: Cluster) {
  const state = { cut: 'no' as 'no' | 'refused' | 'silent' }
  let refused = 0
  const through = async <T>(call: () => Promise<T>): Promise<T> => {
    if (state.cut === 'refused') refused += 1
    if (state.cut === 'refused') throw new ClusterError('Unavailable', 'connection refused')
    if (state.cut === 'silent') await new Promise(() => {})
    return call()
  }
  const cutable: LeaderOptions['cluster'] = {
    get: (r, k) => through(() => cluster.get(r, k)),
    create: (r, o) => through(() => cluster.create(r, o)),
    replace: (r, o) => through(() => cluster.replace(r, o)),
  }
  const cut = (how: typeof state.cut) => {
    state.cut = how
  }
  return { cluster: cutable, cut, refused: () => refused }
}
const winner = async (...all: ReturnType<typeof seekLeadership>[]) => {
  await Promise.race(all.map((l) => l.acquired))
  return all.filter((l) => l.isLeading())
}

t.test('one of two leads, and keeps leading', async (t) => {
  const { seek, stored } = candidates(t)
  const [a, b] = [seek('a'), seek('b')]
  t.equal((await winner(a, b)).length, 1)
  const holder = stored()?.spec.holderIdentity
  for (let i = 0; i < 30; i++) {
    await sleep(50)
    t.equal([a, b].filter((l) => l.isLeading()).length, 1)
  }
  t.match(stored()?.spec, { holderIdentity: holder, leaseTransitions: 0, renewTime: /\.\d{6}Z$/ })
})

t.test('who resigns gives the lease back, so that the next one need not wait for it to run out', async (t) => {
  const { seek, stored } = candidates(t)
  // A lease that would outlast this test.
  const long = { leaseDurationMs: 3_600_000, renewDeadlineMs: 1_800_000 }
  const a = seek('a', long)
  await a.acquired
  const b = seek('b', long)
  await sleep(100)
  await a.resign()
  t.notOk(a.isLeading())
  t.ok(a.signal.aborted)
  await eventually('b leads', () => b.isLeading())
  t.match(stored()?.spec, { holderIdentity: 'b', leaseTransitions: 1 })
})

t.test('giving back leaves no holder', async (t) => {
  const { seek, stored } = candidates(t)
  const a = seek('a')
  await a.acquired
  await a.resign()
  t.equal(stored()?.spec.holderIdentity, undefined)
  t.equal(stored()?.spec.leaseDurationSeconds, 1)
})

for (const how of ['refused', 'silent'] as const) {
  t.test(`a leader whose calls are ${how} knows it is none any more before another one leads`, async (t) => {
    const { seek, cluster, stored } = candidates(t)
    const net = network(cluster)
    const a = seek('a', { cluster: net.cluster })
    await a.acquired
    const b = seek('b')
    await sleep(150)
    net.cut(how)
    let both = false
    const watching = setInterval(() => {
      both ||= a.isLeading() && b.isLeading()
    }, 1)
    await a.lost
    t.notOk(a.isLeading())
    t.ok(a.signal.aborted)
    t.notOk(b.isLeading(), 'there is a gap, never an overlap')
    await b.acquired
    clearInterval(watching)
    t.notOk(both)
    t.equal(stored()?.spec.holderIdentity, 'b')
  })
}

t.test('an interruption shorter than the deadline costs nothing', async (t) => {
  const { seek, cluster, stored } = candidates(t)
  const net = network(cluster)
  const a = seek('a', { cluster: net.cluster, leaseDurationMs: 120_000, renewDeadlineMs: 60_000 })
  await a.acquired
  net.cut('refused')
  await eventually('two tries in vain', () => net.refused() >= 2)
  t.ok(a.isLeading())
  const before = stored()?.spec.renewTime
  net.cut('no')
  await eventually('a renewal', () => stored()?.spec.renewTime !== before)
  t.ok(a.isLeading())
  t.notOk(a.signal.aborted)
})

t.test('a wall clock that jumps neither steals a lease nor loses one', async (t) => {
  const { seek } = candidates(t)
  let offset = 0
  const now = () => new Date(Date.now() + offset)
  const a = seek('a', { now })
  await a.acquired
  const b = seek('b', { now: () => new Date(Date.now() + 86_400_000) })
  for (const jump of [3_600_000, -7_200_000]) {
    offset = jump
    await sleep(300)
    t.ok(a.isLeading())
    t.notOk(b.isLeading())
  }
})

t.test('a process that was frozen does not take itself for the leader when it wakes', async (t) => {
  const { seek } = candidates(t)
  let frozen = 0
  const a = seek('a', { monotonicMs: () => runningMs() + frozen })
  await a.acquired
  t.ok(a.isLeading())
  frozen = times.renewDeadlineMs + 1
  t.notOk(a.isLeading(), 'at once, before any timer has run')
  await a.lost
})

t.test('a lease that another candidate took is lost at once', async (t) => {
  const { seek, store, stored } = candidates(t)
  // Its deadline would outlast this test.
  const a = seek('a', { leaseDurationMs: 3_600_000, renewDeadlineMs: 1_800_000 })
  await a.acquired
  const current = stored() as Lease
  store.replace<Lease>(LEASES, { ...current, spec: { ...current.spec, holderIdentity: 'thief' } })
  let isLost = false
  void a.lost.then(() => {
    isLost = true
  })
  await eventually('the loss', () => isLost)
  t.notOk(a.isLeading())
})

t.test('of two who find the same free lease, one wins and the other goes on trying', async (t) => {
  const { seek, store, stored } = candidates(t)
  store.create<Lease>(LEASES, {
    metadata: lease,
    spec: { leaseDurationSeconds: 1, renewTime: '2026-01-01T00:00:00.000000Z' },
  } as Lease)
  const all = ['a', 'b', 'c'].map((identity) => seek(identity))
  t.equal((await winner(...all)).length, 1)
  t.equal(stored()?.spec.leaseTransitions, 1)
})

t.test('who resigns before leading never leads', async (t) => {
  const { seek, stored } = candidates(t)
  const a = seek('a')
  await a.acquired
  const b = seek('b')
  await b.resign()
  await t.rejects(b.acquired)
  await eventually('a still leads', () => stored()?.spec.holderIdentity === 'a')
})
