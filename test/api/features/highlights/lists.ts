import t, { type Test } from 'tap'
import { findHighlight, type Listed, listHighlights } from '../../../../api/features/highlights/queries.ts'
import { newUuid } from '../../../../lib/contract/ids.ts'
import { startTestApi, uuidOf } from '../../../support/api.ts'
import { insertMany, type Plan, planOf, vacuum } from '../../../support/explain.ts'

/** What pages of highlights read, with the plans that Postgres keeps for prepared queries. */
const api = await startTestApi(t)
const { people, org, database } = api
const { member, another } = people
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)

// Of few owners, Postgres would expect each to have most albums.
const OWNERS = 500
await sql(
  `insert into users (id, issuer, subject) select gen_random_uuid(), 'others', n::text from generate_series(1, $1) n`,
  [OWNERS],
)
await insertMany(
  database,
  `with made as (
    insert into albums (id, org_id, owner_id, title, status)
      select gen_random_uuid(), $1, other.id, 'A', 'DRAFT' from generate_series(1, 2400) n
        join users other on other.issuer = 'others' and other.subject = (n % $3 + 1)::text
      returning id
  ), numbered as (select id, row_number() over () as n from made)
  insert into highlights (id, org_id, created_by, album_id, title, transition, orientation, fill, ken_burns, show_title,
      captions, skip_broken, estimated_duration_sec, created_at)
    select gen_random_uuid(), $1, $2, numbered.id, 'A', 'cut', 'auto', 'blur', true, true, 'none', false, 4,
      now() - make_interval(secs => one)
    from generate_series(1, 6000) one left join numbered on numbered.n = one % 4800`,
  [orgId, another.id, OWNERS],
)
await insertMany(
  database,
  `insert into highlight_items (highlight_id, position, org_id, media_id, source_id, uploader_id, type, seconds, caption)
    select id, p, org_id, gen_random_uuid(), gen_random_uuid(), created_by, 'image', 4, ''
    from highlights, generate_series(0, 1) p`,
)
await vacuum(database, 'albums', 'highlights', 'highlight_items')

const LIMIT = 21
const reads = (nodes: readonly Plan[], table: string) => nodes.filter((node) => node['Relation Name'] === table)
/** How many rows such nodes give, in all loops. */
const rowsOf = (nodes: readonly Plan[]) => nodes.reduce((n, node) => n + node['Actual Rows'] * node['Actual Loops'], 0)

/** Looks at the first page and at a later one. All that is read is read by an index, and nothing in vain. */
async function plansOf(t: Test, listed: Listed) {
  const [at] = await sql(`select id, to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at
    from highlights order by created_at desc offset 1500 limit 1`)
  const plans: Plan[][] = []
  for (const after of [undefined, at]) {
    const asked = { orgId, callerId: member.id, listed, after, limit: LIMIT }
    const nodes = await planOf(database, orgId, (tx) => listHighlights(tx, asked))
    for (const node of nodes) {
      if (!node['Relation Name']) continue
      t.not(node['Node Type'], 'Seq Scan', node['Relation Name'])
      t.notOk(node['Rows Removed by Filter'], `${node['Index Name']}`)
    }
    for (const node of reads(nodes, 'highlights')) t.ok(node['Actual Rows'] <= LIMIT, `${node['Index Name']}`)
    plans.push(nodes)
  }
  return plans
}
const showsAPage = (t: Test, nodes: readonly Plan[]) => {
  const [items, ...others] = reads(nodes, 'highlight_items')
  t.strictSame([items?.['Actual Loops'], others], [LIMIT, []], 'items of the page alone are read')
}

t.test('a page of all highlights reads that page', async (t) => {
  for (const nodes of await plansOf(t, { of: 'all' })) {
    showsAPage(t, nodes)
    const [page] = reads(nodes, 'highlights')
    t.match(page, { 'Index Name': 'highlights_of_org', 'Actual Rows': LIMIT, 'Actual Loops': 1 })
  }
})

t.test('a caller who sees none reads none, however many there are', async (t) => {
  for (const nodes of await plansOf(t, { of: 'visible' })) {
    const found = reads(nodes, 'highlights')
    t.match(
      found.map((node) => node['Index Name']),
      ['highlights_of_creator', 'highlights_in_album', 'highlights_pkey'],
    )
    t.equal(rowsOf(found), 0)
    t.equal(rowsOf(reads(nodes, 'highlight_items')), 0)
  }
})

t.test('a page of visible highlights reads no more than a page of each visible album', async (t) => {
  const VISIBLE = 40
  await sql(
    `update albums set status = 'PUBLIC' where id in (select album_id from highlights where album_id is not null
      group by album_id order by album_id limit $1)`,
    [VISIBLE],
  )
  // One of them has most highlights, and the caller made some of these.
  await sql(
    `update highlights set album_id = (select id from albums where status = 'PUBLIC' limit 1),
      created_by = case when extract(epoch from created_at)::int % 20 = 0 then $1 else created_by end
     where album_id is null`,
    [member.id],
  )
  await vacuum(database, 'albums', 'highlights')
  for (const nodes of await plansOf(t, { of: 'visible' })) {
    showsAPage(t, nodes)
    const [own, visible, page, ...others] = reads(nodes, 'highlights')
    t.match(own, { 'Index Name': 'highlights_of_creator', 'Actual Rows': LIMIT })
    t.match(visible, { 'Index Name': 'highlights_in_album', 'Actual Loops': VISIBLE })
    t.match(page, { 'Index Name': 'highlights_pkey', 'Actual Rows': 1, 'Actual Loops': LIMIT })
    t.strictSame(others, [])
  }
})

t.test('a page of an album reads that page, however many there are of it and of others', async (t) => {
  const [{ id: albumId }] = await sql(`select id from albums where status = 'PUBLIC' order by (select count(*)
    from highlights where album_id = albums.id) desc limit 1`)
  for (const nodes of await plansOf(t, { of: 'album', albumId })) {
    showsAPage(t, nodes)
    const [page, itself, ...others] = reads(nodes, 'highlights')
    t.match(page, { 'Index Name': 'highlights_in_album', 'Actual Rows': LIMIT, 'Actual Loops': 1 })
    t.match(itself, { 'Index Name': 'highlights_pkey', 'Actual Rows': 1, 'Actual Loops': LIMIT })
    t.strictSame(others, [])
  }
})

t.test('one highlight is a look-up', async (t) => {
  const [{ id }] = await sql('select id from highlights limit 1')
  const nodes = await planOf(database, orgId, (tx) => findHighlight(tx, { orgId, id, callerId: newUuid() }))
  for (const node of nodes) if (node['Relation Name']) t.not(node['Node Type'], 'Seq Scan', node['Relation Name'])
})
