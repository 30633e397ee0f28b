import t from 'tap'
import { startTestApi } from '../../support/api.ts'
import { isInOrganization, ROUTES, seedOf, send, sendTo, sidesOf, succeeds } from '../../support/route-table.ts'

/**
 * A member who may not do what they ask for is refused without waiting for a lock: a request that waits holds a
 * connection of the pool, and requests are cheap to send. Every row of the database is locked meanwhile.
 */
const api = await startTestApi(t)
sendTo(api)
const { ours } = sidesOf(api)
const { another } = api.people

// Not `for update`, which would also hold up the insert of the audit entry, by its foreign keys.
async function lockAll(): Promise<() => Promise<void>> {
  const holder = await api.database.admin.connect()
  await holder.query('begin')
  const { rows } = await holder.query<{ name: string }>(
    `select tablename as name from pg_tables where schemaname = 'public' and tablename not like 'audit_%'`,
  )
  for (const { name } of rows) await holder.query(`select from ${name} for no key update`)
  const events = await holder.query<{ id: string }>('select id from events')
  for (const { id } of events.rows) {
    await holder.query(`select pg_advisory_xact_lock(hashtextextended('event ' || $1::text, 0))`, [id])
  }
  return async () => {
    await holder.query('rollback')
    holder.release()
  }
}

let refused = 0
for (const route of ROUTES.filter((route) => isInOrganization(route) && route.method !== 'get')) {
  t.test(`${route.operationId} refuses without waiting`, async (t) => {
    const asAnother = async () => ({ ...(await seedOf(route)(ours)), as: another })
    const first = await send(t, route, await asAnother())
    if (first.status !== 404 && first.status !== 403) {
      t.ok(succeeds(first.status), `another member may do it, or is refused: ${first.status} ${first.code ?? ''}`)
      return
    }
    refused += 1
    const request = await asAnother()
    const release = await lockAll()
    try {
      // One that waits is answered 503 when its lock times out.
      t.equal((await send(t, route, request)).status, first.status)
    } finally {
      await release()
    }
  })
}

t.test('there are such operations', async (t) => {
  t.ok(refused > 15, `${refused} of them`)
})
