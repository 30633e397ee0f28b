import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { makeObject } from '../../../../api/features/media/uploads/assemble.ts'
import { holdLease } from '../../../../api/features/media/uploads/lease.ts'
import type { UploadSession } from '../../../../api/features/media/uploads/queries.ts'
import { newUuid } from '../../../../lib/contract/ids.ts'
import type { ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'

/** The lease of a merge, on a clock that only the test moves: 30 s, renewed every 10 s. */

t.beforeEach(() => mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'Date'] }))
t.afterEach(() => mock.timers.reset())

/** Moves the clock in small steps, and lets what is due happen after each. */
async function pass(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 100) {
    mock.timers.tick(100)
    await new Promise((done) => setImmediate(done))
  }
}

function held(t: Test, renew: () => Promise<boolean>, elapsed = 0) {
  const failures: unknown[] = []
  let renewals = 0
  const lease = holdLease({
    renew() {
      renewals += 1
      return renew()
    },
    onFailure: (error) => failures.push(error),
    now: () => Date.now(),
    since: Date.now() - elapsed,
    leaseMs: 30_000,
    renewMs: 10_000,
  })
  t.teardown(() => lease.stop())
  return { lease, failures, renewals: () => renewals }
}

t.test('a lease that is renewed is kept', async (t) => {
  const { lease, renewals } = held(t, async () => true)
  await pass(300_000)
  t.notOk(lease.signal.aborted)
  t.equal(renewals(), 30)
})

t.test('a lease that another holds is lost at once', async (t) => {
  const { lease, renewals } = held(t, async () => false)
  await pass(10_000)
  t.ok(lease.signal.aborted)
  await pass(60_000)
  t.equal(renewals(), 1, 'and not asked for again')
})

t.test('a lease whose renewals fail is lost when its time is over, not before', async (t) => {
  const { lease, failures } = held(t, async () => {
    throw new Error('the database is away')
  })
  await pass(29_900)
  t.notOk(lease.signal.aborted)
  t.equal(failures.length, 2)
  await pass(100)
  t.ok(lease.signal.aborted)
})

t.test('so is one whose renewals are never answered', async (t) => {
  const { lease } = held(t, () => new Promise(() => {}))
  await pass(29_900)
  t.notOk(lease.signal.aborted)
  await pass(100)
  t.ok(lease.signal.aborted)
})

t.test('a renewal counts from when it was sent, not from its answer', async (t) => {
  const answers = [new Promise<boolean>((done) => void setTimeout(() => done(true), 15_000))]
  const { lease } = held(t, () => answers.pop() ?? new Promise(() => {}))
  await pass(39_900)
  t.notOk(lease.signal.aborted, 'sent after 10 s, answered after 15 s')
  await pass(100)
  t.ok(lease.signal.aborted)
})

t.test('the first lease counts from before it was taken', async (t) => {
  const { lease } = held(t, () => new Promise(() => {}), 8_000)
  await pass(21_900)
  t.notOk(lease.signal.aborted)
  await pass(100)
  t.ok(lease.signal.aborted)
})

t.test('one failure between successes costs nothing', async (t) => {
  let n = 0
  const { lease } = held(t, async () => {
    n += 1
    if (n % 2 === 0) throw new Error('the database is away')
    return true
  })
  await pass(200_000)
  t.notOk(lease.signal.aborted)
})

t.test('a lease that was stopped is neither renewed nor lost', async (t) => {
  const answer = Promise.withResolvers<boolean>()
  const { lease, renewals } = held(t, () => answer.promise)
  await pass(10_000)
  lease.stop()
  answer.resolve(false)
  await pass(100_000)
  t.notOk(lease.signal.aborted)
  t.equal(renewals(), 1)
})

t.test('without the lease no upload is completed', async (t) => {
  const asked: string[] = []
  const store = new Proxy({} as ObjectStore, {
    get: (_target, name) => async () => void asked.push(String(name)),
  })
  const upload = { orgId: newUuid(), mediaId: newUuid(), multipartId: 'm' } as UploadSession
  const work = { upload, chunks: [], takenOver: false }
  await t.rejects(makeObject(store, work, AbortSignal.abort(new Error('lost'))), { message: 'lost' })
  t.strictSame(asked, [])
  await makeObject(store, work, new AbortController().signal)
  t.strictSame(asked, ['completeMultipart'])
})
