import pg from 'pg'
import t from 'tap'
import { newUuid } from '../../../lib/contract/ids.ts'
import { eventually } from '../../support/eventually.ts'
import { databaseBefore } from '../../support/older-database.ts'

/** Members of before, whose names are added while programs of the version before go on. */
const { admin, url, finish } = await databaseBefore(t, '0108_names_of_members.sql')
const [org, other] = [newUuid(), newUuid()]
const MEMBERS = 1100
await admin.query('insert into organizations (id, name) values ($1, $3), ($2, $3)', [org, other, 'One'])
// As they were before migration 0107: its trigger does not see them.
await admin.query('set session_replication_role = replica')
await admin.query(
  `with made as (insert into users (id, issuer, subject, display_name)
      select gen_random_uuid(), 'i', n::text, case when n % 7 > 0 then 'PERSON ' || n end from generate_series(1, $2::int) n
      returning id)
    insert into memberships (org_id, user_id, role, joined_at)
      select $1, id, 'member', '2020-01-02T03:04:05.678901Z' from made`,
  [org, MEMBERS],
)
await admin.query('set session_replication_role = origin')
const wrong = () =>
  admin
    .query(
      `select n.name, searchable(u.display_name) as wanted
        from memberships m join users u on u.id = m.user_id full join member_names n using (org_id, user_id)
        where m.user_id is null or n.user_id is null or n.joined_at <> m.joined_at
          or n.name is distinct from searchable(u.display_name)`,
    )
    .then(({ rows }) => rows)
const idOf = async (subject: number) =>
  (await admin.query('select id from users where subject = $1', [String(subject)])).rows[0].id as string

t.test('finds every member of before, also those who change, leave and join meanwhile', async (t) => {
  t.equal((await wrong()).length, MEMBERS)
  const [renamed, left, joined] = [await idOf(8), await idOf(9), await idOf(10)]
  const clients = await Promise.all(
    [1, 2, 3].map(async () => {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      t.teardown(() => client.end())
      await client.query('begin')
      return client
    }),
  )
  const [renaming, leaving, joining] = clients as [pg.Client, pg.Client, pg.Client]
  await renaming.query(`update users set display_name = 'Renamed' where id = $1`, [renamed])
  await leaving.query('delete from memberships where org_id = $1 and user_id = $2', [org, left])
  await joining.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [other, joined])
  const finished = finish()
  // It waits for one after another: where it comes to their rows, and for the last one before it drops an index.
  const open = new Set(clients)
  const order: pg.Client[] = []
  while (open.size > 0) {
    const held = await eventually('it to wait', async () => {
      const { rows } = await admin.query(
        `select pg_blocking_pids(pid) as by from pg_stat_activity
          where application_name = 'keepsake-migrate' and wait_event_type = 'Lock' and datname = current_database()`,
      )
      return [...open].find((client) => rows[0]?.by.includes((client as unknown as { processID: number }).processID))
    })
    order.push(held)
    await held.query('commit')
    open.delete(held)
  }
  t.equal(order.at(-1), joining, 'who joins keeps no names waiting')
  await finished
  t.strictSame(await wrong(), [])
  const { rows } = await admin.query('select name from member_names where user_id = any($1) order by name', [
    [renamed, left, joined],
  ])
  t.strictSame(rows, [{ name: 'person 10' }, { name: 'person 10' }, { name: 'renamed' }])
  const { rows: indexes } = await admin.query(`select from pg_indexes where indexname = 'users_by_name'`)
  t.strictSame(indexes, [])
})
