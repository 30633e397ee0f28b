import t from 'tap'
import { watchDays } from '../../../api/audit/days.ts'
import { sql } from '../../../api/db/orm.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import { testDatabase } from '../../support/database.ts'
import { eventually } from '../../support/eventually.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { readableLog } from '../../support/readable-log.ts'

/** What the roles of the programs may do with the audit log: the database refuses the rest. */
const { db, worker, admin } = await testDatabase(t)
const ROLES = { keepsake_api: db, keepsake_worker: worker }
const DENIED = '42501'
const ENTRY = {
  columns: 'id, action, resource_type, result',
  values: `gen_random_uuid(), 'LOGIN', 'session', 'success'`,
}
const insert = (columns = '', values = '') =>
  `insert into audit_log (${ENTRY.columns}${columns}) values (${ENTRY.values}${values})`
const today = new Date().toISOString().slice(0, 10).replaceAll('-', '')

for (const [role, database] of Object.entries(ROLES)) {
  t.test(`${role} adds entries, and changes, removes and forges none`, async (t) => {
    const run = (text: string) => database.inTransaction({}, (tx) => tx.execute(sql.raw(text)))
    await run(insert())
    await run(insert(', occurred_at', ', default'))
    for (const text of [
      insert(', occurred_at', `, now() - interval '1 second'`),
      insert(', txid', `, '3'`),
      insert(', serial', ', 3').replace(' values ', ' overriding system value values '),
      `update audit_log set action = 'LOGOUT'`,
      'delete from audit_log',
      'truncate audit_log',
      `insert into audit_log_${today} (${ENTRY.columns}) values (${ENTRY.values})`,
      `select * from audit_log_${today}`,
      `drop table audit_log_${today}`,
      'update audit_links set seq = 1',
      'delete from audit_links',
      'delete from audit_heads',
      'delete from audit_cursor',
      'delete from audit_days',
      'delete from audit_actor_days',
      'alter table audit_log disable row level security',
    ]) {
      await t.rejects(run(text), { cause: { code: DENIED } }, text)
    }
  })
}

t.test('the API reads the log only in a transaction that says so', async (t) => {
  const tables = ['audit_log', 'audit_links', 'audit_heads', 'audit_actor_days', 'audit_archives']
  await admin.query(`insert into audit_actor_days values (gen_random_uuid(), current_date);
    insert into audit_heads values (current_date, gen_random_uuid(), 1, '');
    insert into audit_links values (current_date, gen_random_uuid(), 1, now(), gen_random_uuid(), '');
    insert into audit_archives values ('2020-01-01', 'warm', 'k', 1, 0, 1, '', '[]', '', '')`)
  for (const table of tables) {
    const count = sql.raw(`select count(*)::int as n from ${table}`)
    const seen = async (scope: { audit?: true }) =>
      (await db.read(scope, (tx) => tx.execute(count))).rows[0]?.['n'] as number
    t.ok((await seen({ audit: true })) > 0, table)
    t.equal(await seen({}), 0, table)
  }
  await admin.query('delete from audit_links; delete from audit_heads; delete from audit_archives')
})

t.test('the API does not seal the log, and destroys no key', async (t) => {
  for (const text of [
    `insert into audit_archives values ('2020-01-01', 'warm', 'k', 1, 0, 1, '', '[]', '', '')`,
    `insert into audit_links values (current_date, gen_random_uuid(), 1, now(), gen_random_uuid(), '')`,
    `update audit_keys set wrapped = ''`,
    'delete from audit_keys',
    `select audit_drop_day('2020-01-01')`,
    `select audit_detach_day('2020-01-01')`,
  ]) {
    await t.rejects(
      db.inTransaction({}, (tx) => tx.execute(sql.raw(text))),
      { cause: { code: DENIED } },
      text,
    )
  }
})

t.test('nobody has rights on a partition by its own name', async (t) => {
  const { rows } = await admin.query(`select c.relname, acl.grantee::regrole::text as grantee, acl.privilege_type
    from pg_inherits join pg_class c on c.oid = inhrelid cross join lateral aclexplode(c.relacl) acl
    where acl.grantee <> c.relowner`)
  t.strictSame(rows, [])
  const { rows: guarded } = await admin.query(`select count(*)::int as n,
    bool_and(c.relrowsecurity and c.relforcerowsecurity) as forced from pg_inherits join pg_class c on c.oid = inhrelid
    where inhparent in ('audit_log'::regclass, 'audit_links'::regclass)`)
  t.strictSame(guarded, [{ n: 30, forced: true }])
})

t.test('a day is dropped only once it is older than the hot tier, detached and archived', async (t) => {
  const run = async (text: string) => (await worker.inTransaction({}, (tx) => tx.execute(sql.raw(text)))).rows[0]
  const dayAgo = async (days: number) => {
    const { rows } = await admin.query(
      `select to_char(now() at time zone 'UTC' - $1 * interval '1 day', 'YYYYMMDD') as day`,
      [days],
    )
    return rows[0].day as string
  }
  const [old, young] = [await dayAgo(91), await dayAgo(89)]
  await admin.query(`update audit_since set log = '2020-01-01', links = '2020-01-01'`)
  for (const day of [old, young]) {
    await admin.query(`create table audit_log_${day} partition of audit_log for values from ('${day} 00:00Z') to ('${day} 24:00Z');
      create table audit_links_${day} partition of audit_links for values from ('${day}') to ('${day}'::date + 1);
      insert into audit_heads values ('${day}', '${newUuid()}', 1, '')`)
  }
  const refused = { cause: { message: /keeps its entries for 90 days/ } }
  await t.rejects(run(`select audit_detach_day('${young}')`), refused)
  await t.rejects(run(`select audit_drop_day('${young}')`), refused)
  await t.rejects(run(`select audit_drop_day('${old}')`), { cause: { message: /still a part of the audit log/ } })
  t.strictSame(await run(`select audit_detach_day('${old}') as done`), { done: true })
  t.strictSame(await run(`select audit_detach_day('${old}') as done`), { done: false }, 'once')
  await t.rejects(run(`select audit_drop_day('${old}')`), { cause: { message: /is not archived/ } })
  await admin.query(`insert into audit_archives values ('${old}', 'warm', 'key', 1, 0, 1, '', '[]', '', '')`)
  t.strictSame(await run(`select audit_drop_day('${old}') as done`), { done: true })
  t.strictSame(await run(`select audit_drop_day('${old}') as done`), { done: false }, 'once')
  const left =
    await admin.query(`select to_regclass('audit_log_${old}') as log, to_regclass('audit_links_${old}') as links,
    (select count(*)::int from audit_heads) as heads, to_regclass('audit_log_${young}') is not null as young`)
  t.strictSame(left.rows, [{ log: null, links: null, heads: 1, young: true }])
})

t.test('days are made ahead, by either role, however many do it at once', async (t) => {
  await admin.query(
    `update audit_since set log = (now() at time zone 'UTC')::date, links = (now() at time zone 'UTC')::date`,
  )
  const names = await admin.query<{ name: string }>(`select inhrelid::regclass::text as name from pg_inherits
    where inhparent = 'audit_log'::regclass order by 1 desc limit 9`)
  for (const { name } of names.rows) await admin.query(`drop table ${name}`)
  const ahead = async () => (await db.read({}, (tx) => tx.execute(sql`select audit_days_ahead() as n`))).rows[0]?.['n']
  t.equal(await ahead(), 5)
  const make = (database: typeof db) =>
    database.inTransaction({}, (tx) => tx.execute(sql`select audit_make_days(14) as n`))
  const made = await Promise.all([make(db), make(worker), make(db), make(worker)])
  t.strictSame(
    made.map(({ rows }) => rows[0]?.['n']),
    [14, 14, 14, 14],
  )
  t.equal(await ahead(), 14)
})

t.test(
  'the API makes the days that are missing, at its start and later, and starts without a database, too',
  async (t) => {
    const { rows } = await admin.query<{ name: string }>(`select inhrelid::regclass::text as name from pg_inherits
    where inhparent = 'audit_links'::regclass order by 1 desc limit 3`)
    const drop = async () => {
      for (const { name } of rows) await admin.query(`drop table ${name}`)
    }
    const ahead = async () =>
      (await db.read({}, (tx) => tx.execute(sql`select audit_days_ahead() as n`))).rows[0]?.['n']
    await drop()
    const stop = await watchDays(db, quietLog(), 20)
    t.teardown(stop)
    t.equal(await ahead(), 14)
    await drop()
    await eventually('the days to be made again', async () => (await ahead()) === 14)
    stop()
    const away: typeof db = { ...db, read: () => Promise.reject(new Error('away')) }
    const { log, logged } = readableLog()
    ;(await watchDays(away, log))()
    t.match(logged, [{ msg: 'could not look at the days of the audit log' }])
  },
)

t.test('days are made while a change is under way, and hold none up', async (t) => {
  const { rows } = await admin.query<{ name: string }>(`select inhrelid::regclass::text as name from pg_inherits
    where inhparent = 'audit_log'::regclass order by 1 desc limit 1`)
  await admin.query(`drop table ${rows[0]?.name}`)
  await db.inTransaction({}, async (tx) => {
    await tx.execute(sql.raw(insert()))
    await worker.inTransaction({}, async (other) => {
      const made = await other.execute(sql`select audit_make_days(14) as n`)
      t.strictSame(made.rows, [{ n: 14 }])
      await db.inTransaction({}, (third) => third.execute(sql.raw(insert())))
    })
  })
})
