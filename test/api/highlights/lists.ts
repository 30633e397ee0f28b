import t from 'tap'
import { findHighlight, listHighlights } from '../../../api/highlights/queries.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import { startTestApi, uuidOf } from '../../support/api.ts'
import { planOf, vacuum } from '../../support/explain.ts'

/** What pages of highlights read, with the plans that Postgres keeps for prepared queries. */
const api = await startTestApi(t)
const { people, org, database } = api
const { member, another } = people
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)

await sql(
  `with made as (
    insert into albums (id, org_id, owner_id, title, status)
      select gen_random_uuid(), $1, $2, 'A', case when n % 2 = 0 then 'PUBLIC' else 'DRAFT' end from generate_series(1, 8000) n
      returning id
  ), numbered as (select id, row_number() over () as n from made)
  insert into highlights (id, org_id, created_by, album_id, title, transition, orientation, fill, ken_burns, show_title,
      captions, skip_broken, estimated_duration_sec, created_at)
    select gen_random_uuid(), $1, $2, numbered.id, 'A', 'cut', 'auto', 'blur', true, true, 'none', false, 4,
      now() - make_interval(secs => one)
    from generate_series(1, 20000) one left join numbered on numbered.n = one % 16000`,
  [orgId, another.id],
)
await sql(
  `insert into highlight_items (highlight_id, position, org_id, media_id, source_id, uploader_id, type, seconds, caption)
    select id, p, org_id, gen_random_uuid(), gen_random_uuid(), created_by, 'image', 4, ''
    from highlights, generate_series(0, 1) p`,
)
await vacuum(database, 'albums', 'highlights', 'highlight_items')

const LIMIT = 21
for (const seesAll of [true, false]) {
  t.test(
    `a page of ${seesAll ? 'all' : 'visible'} highlights reads indexes, and items of the page alone`,
    async (t) => {
      const [at] = await sql(`select id, to_char(created_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at from highlights
      order by created_at desc offset 5000 limit 1`)
      for (const after of [undefined, at]) {
        const asked = { orgId, callerId: member.id, seesAll, after, limit: LIMIT }
        const nodes = await planOf(database, orgId, (tx) => listHighlights(tx, asked))
        for (const node of nodes) if (node['Relation Name']) t.not(node['Node Type'], 'Seq Scan', node['Relation Name'])
        const [items] = nodes.filter((node) => node['Relation Name'] === 'highlight_items')
        t.ok((items?.['Actual Loops'] ?? 0) <= LIMIT, `${items?.['Actual Loops']} look-ups of items`)
        // A quarter of all is visible: what lies between the visible ones is read, and no more than that.
        const [rows] = nodes.filter((node) => node['Relation Name'] === 'highlights')
        const read = (rows?.['Actual Rows'] ?? 0) + (rows?.['Rows Removed by Filter'] ?? 0)
        t.ok(read <= (seesAll ? LIMIT : 12 * LIMIT), `${read} rows read`)
      }
    },
  )
}

t.test('one highlight is a look-up', async (t) => {
  const [{ id }] = await sql('select id from highlights limit 1')
  const nodes = await planOf(database, orgId, (tx) => findHighlight(tx, { orgId, id, callerId: newUuid() }))
  for (const node of nodes) if (node['Relation Name']) t.not(node['Node Type'], 'Seq Scan', node['Relation Name'])
})
