import t, { type Test } from 'tap'
import type { Tx } from '../../../../api/db/db.ts'
import { countItems, findItem, listItems, setCaption } from '../../../../api/features/albums/item-queries.ts'
import { listAlbums } from '../../../../api/features/albums/queries.ts'
import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { startTestApi, uuidOf } from '../../../support/api.ts'
import { insertMany, type Plan, planOf, vacuum } from '../../../support/explain.ts'

/** What pages of albums read, with the plans that Postgres keeps for prepared queries. */
const api = await startTestApi(t)
const { people, org, database } = api
const { owner, member, another } = people
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)

const LIMIT = 21
const reads = (nodes: readonly Plan[], table: string) => nodes.filter((node) => node['Relation Name'] === table)

/** Nothing is read that the page does not show, and every look-up is by an index. */
function isLean(t: Test, nodes: readonly Plan[], name: string) {
  for (const node of nodes) {
    if (!node['Relation Name']) continue
    t.not(node['Node Type'], 'Seq Scan', `${name}: ${node['Relation Name']}`)
    t.ok(node['Actual Rows'] <= LIMIT, `${name}: ${node['Actual Rows']} of ${node['Index Name']}`)
    // Of the caller's own events, those of earlier pages are looked at again.
    if (node['Index Name'] === 'albums_event_id_key') continue
    t.notOk(node['Rows Removed by Filter'], `${name}: ${node['Index Name']}`)
  }
}

t.test('a page of albums reads no more than a page of each kind, whatever albums of others lie between', async (t) => {
  const USERS = 500
  await sql(
    `insert into users (id, issuer, subject) select gen_random_uuid(), 'others', n::text from generate_series(1, $1) n`,
    [USERS],
  )
  // Newest are the drafts of others; one in 250 is the caller's.
  await insertMany(
    database,
    `insert into albums (id, org_id, owner_id, title, status, visibility, created_at)
     select gen_random_uuid(), $1, case when n % 250 = 7 then $2::uuid else other.id end, 'A',
       case when n < 3750 then 'DRAFT' when n % 125 = 1 then 'ARCHIVE' else 'PUBLIC' end,
       case when n % 3 = 0 then 'private' else 'organization' end, now() - make_interval(secs => n)
     from generate_series(1, 5000) n join users other on other.issuer = 'others' and other.subject = (n % $3 + 1)::text`,
    [orgId, member.id, USERS],
  )
  // Few of thousands of events, each with an album, are such that the caller takes part in them, or is their host.
  await insertMany(
    database,
    `with made as (
      insert into events (id, org_id, owner_id, title, start_at, status)
        select gen_random_uuid(), $1, case when n % 500 = 0 then $3::uuid else other.id end, 'A', now(), 'active'
          from generate_series(1, 3000) n join users other on other.issuer = 'others' and other.subject = (n % $4 + 1)::text
          returning id
    ), numbered as (select id, row_number() over () as n from made), taken as (
      insert into event_participants (event_id, user_id, org_id, status, joined_at)
        select numbered.id, case when n <= 15 then $3::uuid else other.id end, $1, 'accepted', now()
          from numbered join users other on other.issuer = 'others' and other.subject = (n % $4 + 1)::text
    )
    insert into albums (id, org_id, owner_id, event_id, title, status, visibility)
      select gen_random_uuid(), $1, $2, id, 'A', 'PUBLIC', 'participants' from made`,
    [orgId, another.id, member.id, USERS],
  )
  await vacuum(database, 'albums', 'events', 'event_participants')
  const [after] = await sql(
    `select id, to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at from albums
     order by created_at desc, id desc offset 5250 limit 1`,
  )
  for (const from of [undefined, after as { at: string; id: Uuid }]) {
    const page = { after: from, limit: LIMIT }
    const asks = (callerId: Uuid, seesAll: boolean) =>
      planOf(database, orgId, (tx) => listAlbums(tx, { orgId, callerId, seesAll, ...page }))
    const name = from ? 'next' : 'first'
    const all = await asks(owner.id, true)
    isLean(t, all, `${name}, all`)
    t.strictSame(
      reads(all, 'albums').map((node) => node['Index Name']),
      ['albums_of_org'],
    )
    const some = await asks(member.id, false)
    isLean(t, some, `${name}, some`)
    const indexes = reads(some, 'albums').map((node) => node['Index Name'])
    t.strictSame(indexes.slice(0, 2), ['albums_of_owner', 'albums_for_members'], name)
    t.equal(indexes.length, 4, 'and those of events that the caller takes part in, or is the host of')
  }
})

t.test('a page of media items reads that page, and the count reads one index', async (t) => {
  const ITEMS = 2000
  const albumIds = Array.from({ length: 6 }, () => newUuid())
  const [albumId = ''] = albumIds
  await sql(`insert into albums (id, org_id, owner_id, title) select unnest($1::uuid[]), $2, $3, 'A'`, [
    albumIds,
    orgId,
    member.id,
  ])
  await sql(
    `with made as (
      insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes)
        select gen_random_uuid(), $2, $3, 'a', 'image/jpeg', 'image', 1 from generate_series(1, $4::int) returning id
    )
    insert into album_media (album_id, media_id, org_id, position, listed, added_by)
      select album, id, $2, n, n % 5 > 0, $3
        from (select id, row_number() over () as n from made) numbered, unnest($1::uuid[]) album`,
    [albumIds, orgId, member.id, ITEMS],
  )
  await vacuum(database, 'album_media', 'media')
  for (const at of [undefined, 10, ITEMS - 50]) {
    const after = at === undefined ? undefined : { at, id: newUuid() }
    const nodes = await planOf(database, orgId, (tx) => listItems(tx, { albumId, after, limit: LIMIT }))
    isLean(t, nodes, `after ${at}`)
    t.strictSame(
      reads(nodes, 'album_media').map((node) => [node['Index Name'], node['Actual Rows']]),
      [['album_media_places', LIMIT]],
    )
  }
  const [counted] = reads(await planOf(database, orgId, (tx) => countItems(tx, albumId)), 'album_media')
  t.match(counted, { 'Node Type': 'Index Only Scan', 'Index Name': 'album_media_places', 'Heap Fetches': 0 })
  t.notOk(counted?.['Rows Removed by Filter'])
  const [some] = await sql('select media_id as id from album_media where album_id = $1 and listed limit 1', [albumId])
  for (const ask of [
    (tx: Tx) => findItem(tx, albumId, some?.id),
    (tx: Tx) => setCaption(tx, albumId, some?.id, { caption: 'x', captionBy: null }),
  ]) {
    const nodes = reads(await planOf(database, orgId, ask), 'album_media')
    t.match(
      nodes.filter((node) => node['Node Type'] !== 'ModifyTable'),
      [{ 'Index Name': /^album_media_(pkey|of_media)$/ }],
    )
    for (const node of nodes) t.notOk(node['Rows Removed by Filter'])
  }
})
