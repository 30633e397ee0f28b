import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import t from 'tap'
import { openDatabase } from '../../../api/db/db.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import { auditWorld } from '../../support/audit.ts'
import { testStore } from '../../support/conversion-world.ts'
import { matchWhole } from '../../support/match-whole.ts'
import { databaseBefore } from '../../support/older-database.ts'
import { quietLog } from '../../support/quiet-log.ts'

/** What drizzle of the version before sent, which names every column that it knew. */
const OF_BEFORE = {
  name: 'insert_audit',
  text: `insert into "audit_log" ("id", "org_id", "actor_id", "action", "resource_type", "resource_id", "result",
    "ip_address", "user_agent", "request_id", "client_request_id", "details", "occurred_at")
    values ($1, $2, $3, 'EVENT_CREATE', 'event', null, 'success', '192.0.2.7', 'Firefox', null, null, '{}', default)`,
}

t.test('the audit log becomes partitions under programs of the version before, which go on inserting', async (t) => {
  const { admin, finish } = await databaseBefore(t, '0050_audit_columns.sql')
  const entry = `insert into audit_log (id, action, resource_type, result, occurred_at) values ($1, 'LOGIN', 'session',
    'success', now() - $2::interval)`
  const days = [400, 90, 2, 1, 0]
  for (const day of days) await admin.query(entry, [newUuid(), `${day} days`])

  // Connected as the API is, which owns nothing.
  const url = `postgres://${admin.user}${admin.password ? `:${admin.password}` : ''}@${encodeURIComponent(admin.host)}:${admin.port}/${admin.database}`
  const writers = await Promise.all(
    Array.from({ length: 4 }, async (_, n) => {
      const role = n % 2 ? 'keepsake_worker' : 'keepsake_api'
      const client = new pg.Client({ connectionString: url, options: `-c role=${role} -c lock_timeout=20000` })
      await client.connect()
      return client
    }),
  )
  let isDone = false
  let inserted = 0
  const insert = (client: pg.Client) => client.query({ ...OF_BEFORE, values: [newUuid(), newUuid(), newUuid()] })
  const writing = writers.map(async (client) => {
    while (!isDone) {
      await client.query('begin')
      await insert(client)
      await sleep(Math.random() * 20)
      await client.query('commit')
      inserted += 1
    }
  })
  await sleep(100)
  await finish()
  await sleep(100)
  isDone = true
  await Promise.all(writing)

  const { rows } = await admin.query(`select count(*)::int as n, count(*) filter (where txid = '0')::int as before,
    count(distinct tableoid)::int as tables, min(tableoid::regclass::text) as name from audit_log`)
  t.equal(rows[0]?.n, inserted + days.length, 'no entry is lost, none failed')
  t.ok(rows[0]?.before > days.length && rows[0]?.before < rows[0]?.n, 'the switch fell between inserts')
  t.match(rows[0], { tables: 1, name: 'audit_log_before' })
  const { rows: now } = await admin.query(`select closed_until = (now() at time zone 'UTC')::date - 401 as closed,
    audit_days_ahead() as ahead, (select count(*)::int from audit_links) as links from audit_cursor`)
  t.match(now, [{ closed: true, ahead: 14, links: 0 }])
  // A prepared statement of before, once more after everything.
  await insert(writers[0] as pg.Client)

  t.test('and the plans of readers use the indexes of the part before', async (t) => {
    const { rows } = await admin.query(`select parent.relname as name, child.relname as of_before
      from pg_inherits join pg_class parent on parent.oid = inhparent join pg_class child on child.oid = inhrelid
      join pg_index on indexrelid = child.oid where indrelid = 'audit_log_before'::regclass order by 1`)
    t.strictSame(rows, [
      { name: 'audit_log_by_actor', of_before: 'audit_log_before_by_actor' },
      { name: 'audit_log_by_org', of_before: 'audit_log_before_by_org' },
      { name: 'audit_log_by_txid', of_before: 'audit_log_before_by_txid' },
      { name: 'audit_log_pkey', of_before: 'audit_log_before_pkey' },
    ])
  })
  t.test(
    'and what is older than the seal is sealed in chains of its days, by time, without its plain text',
    async (t) => {
      const worker = openDatabase({
        url: url.replace(/\?.*/, ''),
        role: 'keepsake_worker',
        statementTimeoutMs: 20_000,
        maxConnections: 3,
        log: quietLog(),
      })
      t.teardown(() => worker.close())
      const { store } = await testStore(t)
      const pool = { query: (text: string, values?: unknown[]) => admin.query(text, values) } as unknown as pg.Pool
      const world = auditWorld({ worker, admin: pool }, store)
      await world.seal(50)
      await world.anchor()
      t.equal(await world.unsealed(), 0)
      matchWhole(t, await world.verify(), { entries: inserted + days.length + 1, unsealed: 0, findings: [] })
      const { rows } = await admin.query(`select
      (select count(*)::int from audit_log where ip_address is not null or user_agent is not null) as plain,
      (select count(*)::int from audit_log where personal is not null) as boxes,
      (select count(*)::int from audit_days where anchored_at is null) as unanchored,
      (select count(distinct day)::int from audit_links) as days,
      (select before_at from audit_cursor) as before`)
      t.strictSame(rows, [{ plain: 0, boxes: inserted + 1, unanchored: 0, days: days.length, before: null }])
    },
  )
  await Promise.all(writers.map((client) => client.end()))
})
