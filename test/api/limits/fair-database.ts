import t from 'tap'
import { databaseShares } from '../../../api/limits/capacity.ts'
import { asCaller, fairDatabase } from '../../../api/limits/fair-database.ts'
import { type Person, startTestApi, uuidOf } from '../../support/api.ts'
import { eventually } from '../../support/eventually.ts'
import { whileHeld } from '../../support/while-held.ts'

/** One caller uses the database as much as it can; the others do not notice. */
const api = await startTestApi(t, { settings: { RATE_LIMIT_FACTOR: '1' } })
const { owner, member } = api.people
const { db } = api.database
const SHARES = databaseShares(db.pool.options.max, 1)
/** Of a refusal that came after a wait, of a request for its turn or of a statement for its answer. */
const LATE_MS = 1000

async function metric(name: string): Promise<number> {
  const text = await fetch(`${api.metricsUrl}/metrics`).then((r) => r.text())
  return Number(new RegExp(`^${name} (\\d+)`, 'm').exec(text)?.[1])
}
const by = (userId: string) => ({ ip: '192.0.2.1', userId })
const probe = async () => (await fetch(`${api.internalUrl}/readyz`)).status

const events = `/api/orgs/${api.org}/events`
async function anEvent(who: Person): Promise<string> {
  const { data } = await api.call(who, 'POST', events, { json: { title: 'Reunion', start_at: '2026-08-01T12:00:00Z' } })
  return data.event_id
}

t.test('the shares of a pool', (t) => {
  t.match(databaseShares(10, 1), { total: 9, perCaller: 6, reserve: 2 })
  t.match(databaseShares(100, 1), { total: 99, perCaller: 6, reserve: 24 })
  t.match(databaseShares(2, 1), { total: 1, perCaller: 1, reserve: 0 })
  t.match(databaseShares(1, 0), { total: 1, perCaller: 1, waiting: Number.POSITIVE_INFINITY })
  t.end()
})

t.test('a grid that asks for forty things at once does not notice', async (t) => {
  // With a slow Postgres some wait for too long, and ask again. One that finds no place in the queue is refused at once.
  const ask = async (): Promise<number> => {
    const at = performance.now()
    const { status } = await api.call(member, 'GET', events)
    const isLate = performance.now() - at >= LATE_MS
    return isLate && [429, 503].includes(status) ? ask() : status
  }
  t.strictSame(new Set(await Promise.all(Array.from({ length: 40 }, ask))), new Set([200]))
})

t.test('a caller whose requests wait for a lock holds its share; others read, write and stay ready', async (t) => {
  const event = await anEvent(member)
  const lock = { text: 'select from events where id = $1 for update', values: [uuidOf('event', event)] }
  await whileHeld(api.database, lock, async (holder) => {
    const put = () => api.call(member, 'PUT', `${events}/${event}`, { json: { title: 'Again' } })
    const waiting = Array.from({ length: 50 }, put)
    await eventually('the share', async () => (await metric('http_request_transactions')) === SHARES.perCaller)
    for (let i = 0; i < 10; i++) {
      t.equal((await api.call(owner, 'GET', events)).status, 200)
      t.ok(await anEvent(owner))
      t.equal(await probe(), 200)
    }
    t.ok((await metric('http_request_transactions')) <= SHARES.perCaller)
    await holder.query('commit')
    const statuses = (await Promise.all(waiting)).map(({ status }) => status)
    t.ok(statuses.every((status) => [200, 429, 503].includes(status)))
  })
})

t.test('the probe does not wait for the pool', async (t) => {
  const { pool } = db
  const clients = await Promise.all(Array.from({ length: pool.options.max }, () => pool.connect()))
  try {
    // Longer than one answer of the probe is kept.
    await new Promise((resolve) => setTimeout(resolve, 1100))
    // Of a slow Postgres a probe says 503, and says otherwise again. One that needs the pool would not succeed here at all.
    await eventually('the probe', async () => (await probe()) === 200)
    const health = async () => (await api.call(undefined, 'GET', '/health')).status === 200
    t.ok(await eventually('the health', health))
  } finally {
    for (const client of clients) client.release()
  }
})

t.test('a refusal names a time to come back, and is counted', async (t) => {
  let refused = 0
  const fair = fairDatabase(db, { ...SHARES, perCaller: 1, waiting: 0 }, () => {
    refused += 1
  })
  const held = Promise.withResolvers<void>()
  const first = asCaller(by('ann'), () => fair.read({}, () => held.promise))
  await t.rejects(
    asCaller(by('ann'), () => fair.read({}, async () => {})),
    { code: 'RATE_LIMITED', retryAfter: 1 },
  )
  await asCaller(by('bob'), () => fair.read({}, async () => {}))
  await fair.read({}, async () => {})
  t.strictSame([refused, fair.taken()], [1, 1], 'the others, and what is no request, have their turn')
  held.resolve()
  await first
})

t.test('the queue of an address, which may be that of many people, is longer than that of a user', async (t) => {
  const queues = { perCaller: 1, waiting: 1, waitingPerAddress: 150, waitMs: 120_000 }
  const fair = fairDatabase(db, { ...SHARES, ...queues }, () => {})
  const outcomes = (caller: { ip: string; userId: string }) =>
    Promise.allSettled(Array.from({ length: 151 }, () => asCaller(caller, () => fair.read({}, async () => {}))))
  const done = (all: { status: string }[]) => all.filter(({ status }) => status === 'fulfilled').length
  t.equal(done(await outcomes({ ip: '192.0.2.1', userId: '' })), 151)
  t.equal(done(await outcomes(by('ann'))), 2)
})

t.test('a request that has begun is not refused in the middle', async (t) => {
  const fair = fairDatabase(db, { ...SHARES, perCaller: 1, waiting: 0 }, () => {})
  const order: string[] = []
  const held = Promise.withResolvers<void>()
  const begun = asCaller(by('ann'), async () => {
    await fair.inTransaction({}, async () => {})
    const other = asCaller(by('ann'), () => fair.read({}, () => held.promise.then(() => void order.push('other'))))
    const second = fair.inTransaction({}, async () => void order.push('second'))
    held.resolve()
    await Promise.all([other, second])
  })
  await begun
  t.strictSame(order, ['other', 'second'])
})

t.test('a transaction that waits for another one of its request is a mistake, not a deadlock', async (t) => {
  const fair = fairDatabase(db, SHARES, () => {})
  const nested = () => fair.inTransaction({}, () => fair.read({}, async () => {}))
  await t.rejects(asCaller(by('ann'), nested), /must not wait for another/)
})
