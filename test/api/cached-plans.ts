import t from 'tap'
import { openDatabase } from '../../api/db/db.ts'
import { sql } from '../../api/db/orm.ts'
import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { type Person, startTestApi, uuidOf } from '../support/api.ts'
import { testDatabase } from '../support/database.ts'
import { insertMany, vacuum } from '../support/explain.ts'
import { quietLog } from '../support/quiet-log.ts'

/**
 * Postgres keeps the plan of a prepared query for all later callers of a connection, and estimates row-level security by
 * the caller for whom it plans. Each list is asked for seven times in an organization with hardly any rows, and then in one
 * with thousands: it must not read much more than with a plan that was made for it. The feed has tests of its own.
 */
const made = await testDatabase(t)
const db = openDatabase({
  url: made.url,
  role: 'keepsake_api',
  statementTimeoutMs: 10_000,
  maxConnections: 1,
  log: quietLog(),
})
t.teardown(() => db.close())
const api = await startTestApi(t, { database: { ...made, db } })
const { database, people } = api
const { admin } = database
const USERS = 1000
await admin.query(
  `insert into users (id, issuer, subject) select gen_random_uuid(), 'others', n::text from generate_series(1, $1) n`,
  [USERS],
)

interface Side {
  org: string
  who: Person
  event: Uuid
  album: Uuid
}

/** `n` rows of everything, each with one of many users, and as many below one event and one album. */
async function fill(orgId: Uuid, who: Person, n: number): Promise<Side> {
  const [event, album] = [newUuid(), newUuid()]
  const insert = (text: string, values: unknown[]) => insertMany(database, text, values)
  const anyone = `join users other on other.issuer = 'others' and other.subject = (n % ${USERS} + 1)::text`
  await insert(
    `insert into memberships (org_id, user_id, role)
      select $1, other.id, 'member' from generate_series(1, least($2::int, ${USERS})) n ${anyone}`,
    [orgId, n],
  )
  await insert(
    `insert into events (id, org_id, owner_id, title, start_at, status, created_at)
      select case n when 1 then $2::uuid else gen_random_uuid() end, $1, case n when 1 then $4::uuid else other.id end, 'A',
        now(), 'active', now() - make_interval(secs => n) from generate_series(1, $3::int) n ${anyone}`,
    [orgId, event, n, who.id],
  )
  await insert(
    `insert into event_participants (event_id, user_id, org_id, status, joined_at)
      select id, owner_id, org_id, 'accepted', now() from events where org_id = $1
      union select $2, user_id, org_id, 'accepted', now() from memberships where org_id = $1`,
    [orgId, event],
  )
  await insert(
    `insert into invitations (id, org_id, event_id, slug, email, token_expires_at, invited_by)
      select gen_random_uuid(), $1, $2, lpad(translate(upper(to_hex(n + $4::int)), '01', 'XY'), 8, 'Z'), n || '@example.org',
        now() + interval '1 hour', $5 from generate_series(1, $3::int) n`,
    [orgId, event, n, n, who.id],
  )
  await insert(
    `insert into albums (id, org_id, owner_id, title, status, visibility, created_at)
      select case n when 1 then $2::uuid else gen_random_uuid() end, $1, other.id, 'A', 'PUBLIC', 'organization',
        now() - make_interval(secs => n) from generate_series(1, $3::int) n ${anyone}`,
    [orgId, album, n],
  )
  await insert(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, created_at, deleted_at)
      select gen_random_uuid(), $1, case when n % 2 = 0 then $3::uuid else other.id end, 'f', 'image/jpeg', 'image', 1,
        now() - make_interval(secs => n * 500), case when n % 3 = 0 then now() - make_interval(secs => n) end
      from generate_series(1, $2::int) n ${anyone}`,
    [orgId, n, who.id],
  )
  await insert(
    `insert into album_media (album_id, media_id, org_id, added_by, position, listed)
      select $2, id, org_id, uploader_id, row_number() over () * 1000, true
      from media where org_id = $1 and deleted_at is null`,
    [orgId, album],
  )
  await insert(
    `insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body, created_at)
      select gen_random_uuid(), $1, $2, 'meta', $2, 'event', other.id, 'A', now() - make_interval(secs => n)
      from generate_series(1, $3::int) n ${anyone}`,
    [orgId, event, n],
  )
  await insert(
    `insert into highlights (id, org_id, created_by, title, transition, orientation, fill, ken_burns, show_title,
      captions, skip_broken, estimated_duration_sec, created_at)
      select gen_random_uuid(), $1, $2, 'A', 'cut', 'auto', 'blur', true, true, 'none', false, 4, now() - make_interval(secs => n)
      from generate_series(1, $3::int) n`,
    [orgId, who.id, n],
  )
  await insert(
    `insert into highlight_items (highlight_id, position, org_id, media_id, source_id, uploader_id, type, seconds, caption)
      select id, 0, org_id, gen_random_uuid(), gen_random_uuid(), created_by, 'image', 4, '' from highlights where org_id = $1`,
    [orgId],
  )
  return { org: formatId('organization', orgId), who, event, album }
}

const tiny = await fill(uuidOf('organization', api.otherOrg), people.stranger, 2)
const large = await fill(uuidOf('organization', api.org), people.owner, 6000)
await vacuum(
  database,
  'memberships',
  'events',
  'event_participants',
  'invitations',
  'albums',
  'media',
  'album_media',
  'comments',
  'highlights',
  'highlight_items',
  'users',
)

const LISTS: [string, (side: Side) => string][] = [
  ['events', ({ org }) => `/orgs/${org}/events`],
  ['participants', ({ org, event }) => `/orgs/${org}/events/${formatId('event', event)}/participants`],
  ['invitations', ({ org, event }) => `/orgs/${org}/events/${formatId('event', event)}/invitations`],
  [
    'comments',
    ({ org, event }) => {
      const id = formatId('event', event)
      return `/orgs/${org}/events/${id}/meta/${id}/comments`
    },
  ],
  ['albums', ({ org }) => `/orgs/${org}/albums`],
  ['items of an album', ({ org, album }) => `/orgs/${org}/albums/${formatId('album', album)}/media`],
  ['media items', ({ org }) => `/media/${org}`],
  ['media items of a kind', ({ org }) => `/media/${org}?mime_type=image/*`],
  ['months', ({ org }) => `/media/${org}/months`],
  ['trash', ({ org }) => `/media/${org}/trash`],
  ['highlights', ({ org }) => `/media/${org}/highlights`],
  ['members', ({ org }) => `/organizations/${org}/members`],
  ['connected members', () => '/users/me/connected-members'],
]

/** Pages that the one connection of the API has read in all. */
async function pagesRead(): Promise<number> {
  await db.inTransaction({}, (tx) => tx.execute(sql`select pg_stat_force_next_flush()`))
  await db.inTransaction({}, (tx) => tx.execute(sql`select 1`))
  const { rows } = await db.inTransaction({}, (tx) =>
    tx.execute<{ pages: number }>(sql`select sum(coalesce(hits, 0) + coalesce(reads, 0))::int as pages
      from pg_stat_get_backend_io(pg_backend_pid()) where object = 'relation'`),
  )
  return rows[0]?.pages ?? Number.NaN
}

async function pagesOf(side: Side, path: string): Promise<number> {
  const before = await pagesRead()
  const { status } = await api.call(side.who, 'GET', `/api${path}?limit=20`.replace(/\?(.*)\?/, '?$1&'))
  const read = (await pagesRead()) - before
  if (status !== 200) throw new Error(`${path} answered ${status}`)
  return read
}

/** Of three: where others change the schemas of their databases at this moment, Postgres reads its own tables anew. */
const leastPagesOf = async (side: Side, path: string): Promise<number> =>
  Math.min(await pagesOf(side, path), await pagesOf(side, path), await pagesOf(side, path))

for (const [name, of] of LISTS) {
  t.test(`${name}: the plan that was made in a tiny organization is good for a large one`, async (t) => {
    for (let i = 0; i < 7; i++) await pagesOf(tiny, of(tiny))
    const kept = await leastPagesOf(large, of(large))
    const planFor = (mode: string) => db.pool.query(`set plan_cache_mode = ${mode}`)
    await planFor('force_custom_plan')
    const fresh = await leastPagesOf(large, of(large))
    await planFor('auto')
    t.ok(kept <= 2 * fresh + 100, `${kept} pages, and ${fresh} with a plan of its own`)
  })
}
