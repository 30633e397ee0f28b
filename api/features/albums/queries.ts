import type { Id, Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { afterCursor, microseconds } from '../../db/keyset.ts'
import {
  and,
  desc,
  eq,
  getTableColumns,
  ne,
  or,
  type PgUpdateSetSource,
  type Placeholder,
  type SQL,
  sql,
  unionAll,
} from '../../db/orm.ts'
import { prepared } from '../../db/prepared.ts'
import type { RowOf } from '../../db/row-of.ts'
import { ALBUM_STATUSES, ALBUM_VISIBILITIES, type AlbumRow, albums } from '../../db/schema/albums.ts'
import { type EventRow, type EventStatus, eventParticipants, events } from '../../db/schema/events.ts'
import type { PageWanted } from '../../requests/page.ts'
import { type Viewers, viewersOf } from './policy.ts'

const org = sql.placeholder('org')
const caller = sql.placeholder('caller')
const limit = sql.placeholder('limit')

/** The facts that the rules of `policy.ts` need. Names are written out: in a query of one table drizzle leaves out the table. */
export const decisive = (callerId: Uuid | Placeholder) => ({
  /** Whether the caller has accepted an invitation to the album's event. */
  isParticipant: sql<boolean>`exists (select from event_participants p
    where p.event_id = albums.event_id and p.user_id = ${callerId} and p.status = 'accepted')`,
  eventOwnerId: sql<Uuid | null>`(select e.owner_id from events e where e.id = albums.event_id)`,
  eventStatus: sql<EventStatus | null>`(select e.status from events e where e.id = albums.event_id)`,
  ownerIsMember: sql<boolean>`exists (select from memberships m
    where m.org_id = albums.org_id and m.user_id = albums.owner_id)`,
})
type Decisive = RowOf<ReturnType<typeof decisive>>
export type SeenAlbum = AlbumRow & Decisive

export interface Asked {
  orgId: Uuid
  callerId: Uuid
}

/**
 * An album in whatever state, by its id or by its event, with what decides whether the caller may see it. The lock order is event, album, media,
 * rows of album_media (migration 0012): a transaction that changes an album locks its event `for share` first, then the
 * album, and then the media item that it adds.
 */
export async function findAlbum(
  tx: Tx,
  { orgId, by = 'album', id, callerId, lock = false }: Asked & { by?: 'album' | 'event'; id: Uuid; lock?: boolean },
): Promise<SeenAlbum | undefined> {
  const query = tx
    .select({ ...getTableColumns(albums), ...decisive(callerId) })
    .from(albums)
    .where(and(eq(albums.orgId, orgId), eq(by === 'album' ? albums.id : albums.eventId, id)))
  const [row] = await (lock ? query.for('update') : query)
  return row
}

/** What callers see of an album. Counts are counted, so they cannot drift. */
const shown = {
  id: albums.id,
  orgId: albums.orgId,
  ownerId: albums.ownerId,
  event: sql<EventOfAlbum | null>`(select jsonb_build_object('id', e.id, 'ownerId', e.owner_id, 'status', e.status)
    from events e where e.id = albums.event_id)`,
  title: albums.title,
  description: albums.description,
  visibility: albums.visibility,
  status: albums.status,
  createdAt: microseconds(albums.createdAt),
  updatedAt: albums.updatedAt,
  mediaCount: sql<number>`(select count(*)::int from album_media i where i.album_id = albums.id and i.listed)`,
  coverMediaId: sql<Id<'media'> | null>`coalesce(
    (select i.media_id from album_media i where i.album_id = albums.id and i.is_cover and i.listed),
    (select i.media_id from album_media i where i.album_id = albums.id and i.listed order by i.position limit 1))`,
}
/** The columns of an album, and the facts that decide who may see it. */
export type EventOfAlbum = Pick<EventRow, 'id' | 'ownerId' | 'status'>
export type ShownAlbum = RowOf<typeof shown>

/** An album as its detail shows it, by its id or by its event. Whether the caller may see it is still to be decided. */
export type DetailedAlbum = ShownAlbum & Decisive
export async function findShownAlbum(
  tx: Tx,
  { orgId, callerId, by, id }: Asked & { by: 'album' | 'event'; id: Uuid },
): Promise<DetailedAlbum | undefined> {
  const named = by === 'album' ? albums.id : albums.eventId
  const [row] = await prepared(tx, `find_shown_album_by_${by}`, { org: orgId, caller: callerId, id }, () =>
    tx
      .select({ ...shown, ...decisive(caller) })
      .from(albums)
      .where(and(eq(albums.orgId, org), eq(named, sql.placeholder('id')))),
  )
  return row
}

// Written out instead of passed: the planner compares it with the predicates of the partial indexes.
const seenBy = (viewers: Viewers): SQL => {
  const all = ALBUM_STATUSES.flatMap((status) => ALBUM_VISIBILITIES.map((visibility) => ({ status, visibility })))
  const pairs = all.filter((album) => viewersOf(album) === viewers)
  const one = pairs.map((p) => `(albums.status = '${p.status}' and albums.visibility = '${p.visibility}')`)
  return sql.raw(`(${one.join(' or ')})`)
}

const newestFirst = [desc(albums.createdAt), desc(albums.id)]

// The albums that a caller sees, in four parts: each is in one of them. Fill the placeholders `org` and `caller`.
const isOwn = and(eq(albums.ownerId, caller), sql`not ${seenBy('members')}`)
const isOfEvent = and(eq(albums.eventId, eventParticipants.eventId), ne(albums.ownerId, caller), seenBy('participants'))
// An owner who left the organization and came back does not take part in the event.
const isOfHost = and(
  eq(albums.eventId, events.id),
  ne(albums.ownerId, caller),
  or(seenBy('managers'), and(seenBy('participants'), sql`not ${decisive(caller).isParticipant}`)),
)
const takesPart = and(
  eq(eventParticipants.orgId, org),
  eq(eventParticipants.userId, caller),
  eq(eventParticipants.status, 'accepted'),
)
// There is one. The limit keeps the planner from reading all albums of the organization instead.
const albumOf = (tx: Tx, part: SQL | undefined, position?: SQL) =>
  tx.select().from(albums).where(and(part, position)).limit(1).as('albums')
const hosts = and(eq(events.orgId, org), eq(events.ownerId, caller))

/**
 * The queries whose pages, merged, are a page of the list. Each album is in exactly one of them, and none reads an album
 * that the caller does not see. The last two begin with the events of the caller, which are few compared with those of
 * the organization.
 */
function partsOf(tx: Tx, position: SQL | undefined) {
  const pageOf = (part?: SQL) =>
    tx
      .select()
      .from(albums)
      .where(and(eq(albums.orgId, org), part, position))
      .orderBy(...newestFirst)
      .limit(limit)
  const ofEvents = () =>
    tx
      .select(getTableColumns(albums))
      .from(eventParticipants)
      .crossJoinLateral(albumOf(tx, isOfEvent, position))
      .where(takesPart)
      .orderBy(...newestFirst)
      .limit(limit)
  const ofHosted = () =>
    tx
      .select(getTableColumns(albums))
      .from(events)
      .crossJoinLateral(albumOf(tx, isOfHost, position))
      .where(hosts)
      .orderBy(...newestFirst)
      .limit(limit)
  return {
    all: () => pageOf(),
    visible: () => unionAll(pageOf(isOwn), pageOf(seenBy('members')), ofEvents(), ofHosted()),
  }
}

/** The ids of all albums that a caller sees, for lists of what belongs to albums. Fill as `isOwn`. */
export function visibleAlbums(tx: Tx) {
  const { id } = albums
  const idsOf = (part: SQL | undefined) =>
    tx
      .select({ id })
      .from(albums)
      .where(and(eq(albums.orgId, org), part))
  const ofEvents = tx.select({ id }).from(eventParticipants).crossJoinLateral(albumOf(tx, isOfEvent)).where(takesPart)
  const ofHosted = tx.select({ id }).from(events).crossJoinLateral(albumOf(tx, isOfHost)).where(hosts)
  return unionAll(idsOf(isOwn), idsOf(seenBy('members')), ofEvents, ofHosted).as('albums')
}

/** Newest first. */
export async function listAlbums(tx: Tx, o: Asked & PageWanted & { seesAll: boolean }): Promise<ShownAlbum[]> {
  const kind = o.seesAll ? 'all' : 'visible'
  const name = `list_albums_${kind}_${o.after ? 'next' : 'first'}`
  const values = { org: o.orgId, caller: o.callerId, limit: o.limit, at: o.after?.at, id: o.after?.id }
  return prepared(tx, name, values, () => {
    const rows = partsOf(tx, o.after && afterCursor(albums.createdAt, albums.id))[kind]()
    return tx
      .select(shown)
      .from(rows.as('albums'))
      .orderBy(...newestFirst)
      .limit(limit)
  })
}

/** Undefined when the event has an album already. */
export async function insertAlbum(
  tx: Tx,
  row: Pick<AlbumRow, 'id' | 'orgId' | 'ownerId' | 'eventId' | 'title'> & AlbumColumns,
): Promise<AlbumRow | undefined> {
  const [made] = await tx.insert(albums).values(row).onConflictDoNothing({ target: albums.eventId }).returning()
  return made
}

/** Columns that requests set; undefined leaves one as it is. */
export type AlbumColumns = { [K in 'title' | 'description' | 'visibility' | 'status']?: AlbumRow[K] | undefined }

/** Every change of an album, or of what is in it, makes another version of it. */
export async function setAlbum(tx: Tx, id: Uuid, columns: PgUpdateSetSource<typeof albums>): Promise<AlbumRow> {
  const [row] = await tx
    .update(albums)
    .set({ ...columns, version: sql`${albums.version} + 1`, updatedAt: sql`now()` })
    .where(eq(albums.id, id))
    .returning()
  if (!row) throw new Error(`the album ${id} was locked and is gone`)
  return row
}

export const updateAlbum = (tx: Tx, id: Uuid, columns: AlbumColumns = {}) => setAlbum(tx, id, columns)

/** With its places. The album of an event goes with its event. */
export async function removeAlbum(tx: Tx, id: Uuid): Promise<void> {
  await tx.delete(albums).where(eq(albums.id, id))
}
