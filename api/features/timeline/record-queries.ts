import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { type SQL, sql } from '../../db/orm.ts'
import type { TimelineType } from '../../db/schema/timeline.ts'

// Items are made of the rows that the events announced, and not of the events: so a rebuild makes the same ones, and
// repeats and any order of delivery change nothing. Events have milliseconds, so positions have them too.

/** Causes that events name; or the rows of a table, for a rebuild. */
export type Given<T> = { these: readonly T[] } | { rows: Rows }

/** The values of the columns by which a rebuild goes through a table. */
export type Key = readonly Uuid[]
/** Rows whose key is above `after`, and not above `until`: of all organizations, or of one. */
export interface Rows {
  after: Key
  until: Key
  orgId: Uuid | undefined
}
/** How many items were inserted, by organization. */
export type Inserted = ReadonlyMap<Uuid, number>

const uuids = (ids: readonly Uuid[]) => sql`${sql.param([...ids])}::uuid[]`
const rowOf = (key: Key) =>
  sql`(${sql.join(
    key.map((value) => sql`${value}::uuid`),
    sql`, `,
  )})`
const columnsOf = (columns: readonly string[], table?: string) =>
  sql.raw(columns.map((column) => (table ? `${table}.${column}` : column)).join(', '))

function among(table: string, columns: readonly string[], { after, until, orgId }: Rows): SQL {
  const key = sql`(${columnsOf(columns, table)})`
  const ofOne = orgId === undefined ? sql`` : sql` and ${sql.raw(table)}.org_id = ${orgId}`
  return sql`${key} > ${rowOf(after)} and ${key} <= ${rowOf(until)}${ofOne}`
}
const those = (table: string, given: Given<Uuid>) =>
  'rows' in given ? among(table, ['id'], given.rows) : sql`${sql.raw(`${table}.id`)} = any(${uuids(given.these)})`
const inMilliseconds = (column: string) => sql.raw(`date_trunc('milliseconds', ${column})`)
const epochOf = (at: string) => sql.raw(`(extract(epoch from ${at}) * 1000)::bigint::text`)

/** Inserts the items that are not there yet. */
async function insertItems(tx: Tx, items: SQL): Promise<Inserted> {
  // In order of id: a rebuild and a consumer that insert the same ones wait for each other and do not deadlock.
  const { rows } = await tx.execute<{ orgId: Uuid; count: number }>(sql`
    with inserted as (
      insert into timeline_items (id, org_id, type, actor_id, ref_type, ref_id, at, bucket, change, event_id, album_id)
        select distinct on (id) id, org_id, type, actor_id, ref_type, ref_id, at, bucket, change, event_id, album_id
          from (${items}) as items (id, org_id, type, actor_id, ref_type, ref_id, at, bucket, change, event_id, album_id)
          order by id, at
        on conflict (id) do nothing returning org_id
    )
    select org_id as "orgId", count(*)::integer as count from inserted group by org_id`)
  return new Map(rows.map(({ orgId, count }) => [orgId, count]))
}

const NEVER_MANY = sql`null::timestamptz, null::text`

export const insertEventsCreated = (tx: Tx, given: Given<Uuid>) =>
  insertItems(
    tx,
    sql`select timeline_item_id('event_created', e.id::text), e.org_id, 'event_created', e.owner_id, 'event', e.id,
      ${inMilliseconds('e.created_at')}, ${NEVER_MANY}, e.id, null::uuid
      from events e where ${those('e', given)}`,
  )

/** Who activated the event is known from the event alone; otherwise its owner stands for them. */
export const insertEventsActivated = (tx: Tx, given: Given<{ eventId: Uuid; actorId: Uuid }>) => {
  const known = 'these' in given ? given.these : []
  const ids = known.map(({ eventId }) => eventId)
  return insertItems(
    tx,
    sql`select timeline_item_id('event_activated', e.id::text), e.org_id, 'event_activated',
      coalesce(known.actor_id, e.owner_id), 'event', e.id, ${inMilliseconds('e.activated_at')}, ${NEVER_MANY}, e.id, null::uuid
      from events e left join unnest(${uuids(ids)}, ${uuids(known.map(({ actorId }) => actorId))})
        as known (event_id, actor_id) on known.event_id = e.id
      where e.activated_at is not null and ${those('e', 'these' in given ? { these: ids } : given)}`,
  )
}

export const insertAlbumsCreated = (tx: Tx, given: Given<Uuid>) =>
  insertItems(
    tx,
    sql`select timeline_item_id('album_created', a.id::text), a.org_id, 'album_created', a.owner_id, 'album', a.id,
      ${inMilliseconds('a.created_at')}, ${NEVER_MANY}, a.event_id, a.id
      from albums a where ${those('a', given)}`,
  )

export interface AlbumChange {
  albumId: Uuid
  actorId: Uuid
  at: Date
  change: 'media_added' | 'details'
  /** The version of the album with which other people came to see it; null for other changes. */
  shownAt: number | null
}

/**
 * One item for all changes of one kind that one member makes within six hours. Only additions are recorded in rows. A
 * change that shows the album to others has an item of its own: those who see the album only since then would find an
 * earlier one in their past.
 */
export function insertAlbumChanges(tx: Tx, given: Given<AlbumChange>): Promise<Inserted> {
  const changes =
    'rows' in given
      ? sql`select b.album_id, b.added_by, first.added_at, 'media_added', null::bigint from (
            select distinct i.album_id, i.added_by, timeline_bucket(i.added_at) as bucket from album_media i
              where ${among('i', ['album_id', 'media_id'], given.rows)}) b
          cross join lateral (select i.added_at from album_media i where i.album_id = b.album_id and i.added_by = b.added_by
            and i.added_at >= b.bucket order by i.added_at limit 1) first`
      : sql`select * from unnest(${uuids(given.these.map((c) => c.albumId))}, ${uuids(given.these.map((c) => c.actorId))},
          ${sql.param(given.these.map((c) => c.at.toISOString()))}::timestamptz[],
          ${sql.param(given.these.map((c) => c.change))}::text[], ${sql.param(given.these.map((c) => c.shownAt))}::bigint[])`
  return insertItems(
    tx,
    sql`select case when c.shown_at is null
        then timeline_item_id('album_updated', a.id::text, c.actor_id::text, c.change, ${epochOf('timeline_bucket(c.at)')})
        else timeline_item_id('album_updated', a.id::text, 'shown', c.shown_at::text) end,
      a.org_id, 'album_updated', c.actor_id, 'album', a.id, ${inMilliseconds('c.at')}, timeline_bucket(c.at), c.change,
      a.event_id, a.id
      from (${changes}) as c (album_id, actor_id, at, change, shown_at) join albums a on a.id = c.album_id`,
  )
}

/**
 * One item for all media items that one member uploads within six hours, at the place of the first. Of the given ones only
 * their members and hours count: which of them arrives first makes no difference.
 */
export const insertUploads = (tx: Tx, given: Given<Uuid>) =>
  insertItems(
    tx,
    sql`select timeline_item_id('media_uploaded', b.org_id::text, b.uploader_id::text, ${epochOf('b.bucket')}), b.org_id,
      'media_uploaded', b.uploader_id, 'media', first.id, ${inMilliseconds('first.created_at')}, b.bucket, null::text,
      null::uuid, null::uuid
      from (select distinct m.org_id, m.uploader_id, timeline_bucket(m.created_at) as bucket from media m
        where ${those('m', given)}) b
      cross join lateral (select m.id, m.created_at from media m where m.org_id = b.org_id
        and m.uploader_id = b.uploader_id and m.created_at >= b.bucket and m.created_at < b.bucket + interval '6 hours'
        order by m.created_at, m.id limit 1) first`,
  )

/** Of memberships that last. Each has an item, also of one who left and joined again. */
export const insertJoined = (tx: Tx, given: Given<{ orgId: Uuid; userId: Uuid }>) => {
  const these =
    'rows' in given
      ? among('m', ['org_id', 'user_id'], given.rows)
      : sql`(m.org_id, m.user_id) in (select * from unnest(${uuids(given.these.map((one) => one.orgId))},
          ${uuids(given.these.map((one) => one.userId))}))`
  return insertItems(
    tx,
    sql`select timeline_item_id('member_joined', m.org_id::text, m.user_id::text,
        ${epochOf("date_trunc('milliseconds', m.joined_at)")}), m.org_id, 'member_joined', m.user_id, 'user', m.user_id,
      ${inMilliseconds('m.joined_at')}, ${NEVER_MANY}, null::uuid, null::uuid
      from memberships m where ${these}`,
  )
}

export const insertReactions = (tx: Tx, given: Given<Uuid>) =>
  insertItems(
    tx,
    sql`select timeline_item_id('reaction_added', r.id::text), r.org_id, 'reaction_added', r.user_id, 'reaction', r.id,
      ${inMilliseconds('r.created_at')}, ${NEVER_MANY}, r.event_id, null::uuid
      from reactions r where ${those('r', given)}`,
  )

export const insertComments = (tx: Tx, given: Given<Uuid>) =>
  insertItems(
    tx,
    sql`select timeline_item_id('comment_posted', c.id::text), c.org_id, 'comment_posted', c.author_id, 'comment', c.id,
      ${inMilliseconds('c.created_at')}, ${NEVER_MANY}, c.event_id, null::uuid
      from comments c where ${those('c', given)}`,
  )

/** The rows that items are made of, and their primary key. */
interface Source {
  type: TimelineType
  table: string
  key: readonly string[]
  insert(tx: Tx, given: { rows: Rows }): Promise<Inserted>
}

export const SOURCES: readonly Source[] = [
  { type: 'event_created', table: 'events', key: ['id'], insert: insertEventsCreated },
  { type: 'event_activated', table: 'events', key: ['id'], insert: insertEventsActivated },
  { type: 'album_created', table: 'albums', key: ['id'], insert: insertAlbumsCreated },
  { type: 'album_updated', table: 'album_media', key: ['album_id', 'media_id'], insert: insertAlbumChanges },
  { type: 'media_uploaded', table: 'media', key: ['id'], insert: insertUploads },
  { type: 'member_joined', table: 'memberships', key: ['org_id', 'user_id'], insert: insertJoined },
  { type: 'reaction_added', table: 'reactions', key: ['id'], insert: insertReactions },
  { type: 'comment_posted', table: 'comments', key: ['id'], insert: insertComments },
]

/** The key of the last of the next `count` rows above `after`; undefined if there is none. */
export async function nextKey(
  tx: Tx,
  { table, key }: Source,
  { after, count }: { after: Key; count: number },
): Promise<Key | undefined> {
  const columns = columnsOf(key)
  const { rows } = await tx.execute<{ key: Uuid[] }>(sql`
    select array[${columns}] as key from (
      select ${columns} from ${sql.raw(table)} where (${columns}) > ${rowOf(after)} order by ${columns} limit ${count}) these
    order by ${sql.raw(key.map((column) => `${column} desc`).join(', '))} limit 1`)
  return rows[0]?.key
}

/** Makes polls and streams of these organizations look again. Call it last in the transaction, once. */
export async function bumpFeeds(tx: Tx, orgIds: readonly Uuid[]): Promise<void> {
  // In order: two transactions that lock several organizations would deadlock otherwise. An organization that is gone has no feed.
  const sorted = [...new Set(orgIds)].toSorted()
  await tx.execute(sql`select bump_feed(given.id) from (
    select g.id from unnest(${uuids(sorted)}) with ordinality g (id, n) join organizations o on o.id = g.id order by g.n
    offset 0) given`)
}
