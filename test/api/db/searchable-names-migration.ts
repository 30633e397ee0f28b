import pg from 'pg'
import t from 'tap'
import { newUuid } from '../../../lib/contract/ids.ts'
import { eventually } from '../../support/eventually.ts'
import { databaseBefore } from '../../support/older-database.ts'

/** Names that members had before, which are folded again while programs of the version before go on. */
const { admin, url, finish } = await databaseBefore(t, '0118_searchable_names.sql')
const org = newUuid()
const MEMBERS = 1100
const NAMES = ['Γιώργος', 'İbrahim', 'IŞIK', 'Işık', 'Ann']
await admin.query(`insert into organizations (id, name) values ($1, 'One')`, [org])
await admin.query(
  `with made as (insert into users (id, issuer, subject, display_name)
      select gen_random_uuid(), 'i', n::text, case when n % 7 > 0 then ($2::text[])[1 + n % $3::int] end
        from generate_series(1, $4::int) n returning id)
    insert into memberships (org_id, user_id, role) select $1, id, 'member' from made`,
  [org, NAMES, NAMES.length, MEMBERS],
)
const wrong = () =>
  admin
    .query(
      `select n.name, u.display_name from member_names n join users u on u.id = n.user_id
        where n.name is distinct from searchable(u.display_name)`,
    )
    .then(({ rows }) => rows)

t.test('every name of before is found in its new form, also one that changes meanwhile', async (t) => {
  const changing = new pg.Client({ connectionString: url })
  await changing.connect()
  t.teardown(() => changing.end())
  await changing.query('begin')
  await changing.query(`update users set display_name = 'Γιάννης' where subject = '1'`)
  const finished = finish()
  await eventually('it to wait', async () => {
    const { rows } = await admin.query(
      `select from pg_stat_activity where application_name = 'keepsake-migrate' and wait_event_type = 'Lock'
        and datname = current_database()`,
    )
    return rows.length > 0
  })
  await changing.query('commit')
  await finished
  t.strictSame(await wrong(), [])
  const { rows } = await admin.query('select distinct name from member_names where name is not null order by name')
  t.strictSame(rows.map(({ name }) => name).sort(), ['ann', 'ibrahim', 'işik', 'γιάννησ', 'γιώργοσ'].sort())
})
