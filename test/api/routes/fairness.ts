import t from 'tap'
import { databaseShares, MAX_DOCUMENTS_PER_CALLER } from '../../../api/limits/capacity.ts'
import { aPerson, startTestApi, uuidOf } from '../../support/api.ts'
import { eventually } from '../../support/eventually.ts'
import { beGreedy } from '../../support/greedy.ts'
import { ROUTES, seedOf, send, sendTo, sidesOf, succeeds } from '../../support/route-table.ts'

/**
 * Every operation, while one member of the same organization holds as much of the process as it can: slots for
 * documents, uploads and transactions that wait for a lock. The other is answered as ever, never 429 or 503.
 */
const api = await startTestApi(t)
sendTo(api)
const { ours } = sidesOf(api)
const { admin, db } = api.database
const SHARES = databaseShares(db.pool.options.max, 0)

async function taken() {
  const text = await fetch(`${api.metricsUrl}/metrics`).then((r) => r.text())
  const read = (name: string) => Number(new RegExp(`^${name} (\\d+)`, 'm').exec(text)?.[1])
  return {
    documents: read('http_request_bodies\\{kind="document"\\}'),
    streams: read('http_request_bodies\\{kind="stream"\\}'),
    transactions: read('http_request_transactions'),
  }
}

const greedy = await aPerson(api)
await admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [
  uuidOf('organization', api.org),
  greedy.id,
])
const given = { title: 'Mine', start_at: '2026-08-01T12:00:00Z' }
const { data } = await api.call(greedy, 'POST', `/api/orgs/${api.org}/events`, { json: given })
const event: string = data.event_id

const holder = await admin.connect()
await holder.query('begin')
await holder.query('select from events where id = $1 for update', [uuidOf('event', event)])
const greed = beGreedy({ port: api.port, token: greedy.token, org: api.org, event })
t.teardown(async () => {
  greed.stop()
  await holder.query('rollback')
  holder.release()
})

t.test('the greedy one has its share of everything, and no more', async (t) => {
  await eventually('its share', async () => {
    const { documents, streams, transactions } = await taken()
    return documents >= MAX_DOCUMENTS_PER_CALLER / 2 && streams >= 100 && transactions >= SHARES.perCaller - 1
  })
  const { documents, streams, transactions } = await taken()
  t.ok(documents <= MAX_DOCUMENTS_PER_CALLER, `${documents} documents`)
  t.ok(streams < api.config.MAX_BODIES, `${streams} streams`)
  t.ok(transactions <= SHARES.perCaller, `${transactions} transactions`)
})

for (const route of ROUTES) {
  t.test(`${route.operationId} is answered as ever`, async (t) => {
    const { status, code } = await send(t, route, await seedOf(route)(ours))
    t.ok(succeeds(status) || status === 302, `${status} ${code ?? ''}`)
  })
}

t.test('the greedy one was there all the time', async (t) => {
  const { documents, streams } = await taken()
  t.ok(documents + streams > 50, `${documents} documents, ${streams} streams`)
})
