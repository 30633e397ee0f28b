import { and, asc, desc, eq, getTableColumns, ne, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { type PgUpdateSetSource, unionAll } from 'drizzle-orm/pg-core'
import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { afterCursor, microseconds } from '../../db/keyset.ts'
import { prepared } from '../../db/prepared.ts'
import {
  ALBUM_STATUSES,
  ALBUM_VISIBILITIES,
  type AlbumMediaRow,
  type AlbumRow,
  albumMedia,
  albums,
} from '../../db/schema/albums.ts'
import { type EventRow, type EventStatus, eventParticipants } from '../../db/schema/events.ts'
import { media } from '../../db/schema/media.ts'
import type { PageWanted } from '../../requests/page.ts'
import { type ListedMedia, listed } from '../media/queries.ts'
import { type Place, type Placed, STEP } from './plan.ts'
import { type Audience, audienceOf } from './policy.ts'

const org = sql.placeholder('org')
const caller = sql.placeholder('caller')
const limit = sql.placeholder('limit')

/** The facts on which the rules of `policy.ts` decide. */
export type SeenAlbum = AlbumRow & Decisive
interface Decisive {
  /** Whether the caller has accepted an invitation to the album's event. */
  isParticipant: boolean
  eventStatus: EventStatus | null
  ownerIsMember: boolean
}

/** Names are written out: in a query of one table drizzle leaves out the table. */
const decisive = (callerId: Uuid | Placeholder) => ({
  isParticipant: sql<boolean>`exists (select from event_participants p
    where p.event_id = albums.event_id and p.user_id = ${callerId} and p.status = 'accepted')`,
  eventStatus: sql<EventStatus | null>`(select e.status from events e where e.id = albums.event_id)`,
  ownerIsMember: sql<boolean>`exists (select from memberships m
    where m.org_id = albums.org_id and m.user_id = albums.owner_id)`,
})

interface Asked {
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

/**
 * The album of an event, if this media item is in it and not deleted; the album then decides who sees it (`album.read`).
 * The video of a Live Photo is in an album as its image.
 */
export async function findAlbumWithMedia(
  tx: Tx,
  { orgId, eventId, mediaId, callerId }: Asked & { eventId: Uuid; mediaId: Uuid },
): Promise<SeenAlbum | undefined> {
  const [row] = await tx
    .select({ ...getTableColumns(albums), ...decisive(callerId) })
    .from(albums)
    .innerJoin(albumMedia, eq(albumMedia.albumId, albums.id))
    .where(and(eq(albums.orgId, orgId), eq(albums.eventId, eventId), LISTED, isItem(mediaId)))
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
  coverMediaId: sql<Uuid | null>`coalesce(
    (select i.media_id from album_media i where i.album_id = albums.id and i.is_cover and i.listed),
    (select i.media_id from album_media i where i.album_id = albums.id and i.listed order by i.position limit 1))`,
}
/** The columns of an album, and the facts that decide who may see it. */
export type EventOfAlbum = Pick<EventRow, 'id' | 'ownerId' | 'status'>
type OtherwiseShown = 'event' | 'createdAt' | 'mediaCount' | 'coverMediaId'
export type ShownAlbum = Pick<AlbumRow, Exclude<keyof typeof shown, OtherwiseShown>> & {
  event: EventOfAlbum | null
  createdAt: string
  mediaCount: number
  coverMediaId: Uuid | null
}

/** An album as its detail shows it, by its id or by its event. Whether the caller may see it is still to be decided. */
export type DetailedAlbum = ShownAlbum & Decisive
export async function findShown(
  tx: Tx,
  { orgId, callerId, by, id }: Asked & { by: 'album' | 'event'; id: Uuid },
): Promise<DetailedAlbum | undefined> {
  const named = by === 'album' ? albums.id : albums.eventId
  const query = prepared(tx, `find_shown_album_by_${by}`, (name) =>
    tx
      .select({ ...shown, ...decisive(caller) })
      .from(albums)
      .where(and(eq(albums.orgId, org), eq(named, sql.placeholder('id'))))
      .prepare(name),
  )
  const [row] = await query.execute({ org: orgId, caller: callerId, id })
  return row
}

// Written out instead of passed: the planner compares it with the predicates of the partial indexes.
const seenBy = (audience: Audience): SQL => {
  const all = ALBUM_STATUSES.flatMap((status) => ALBUM_VISIBILITIES.map((visibility) => ({ status, visibility })))
  const pairs = all.filter((album) => audienceOf(album) === audience)
  const one = pairs.map((p) => `(albums.status = '${p.status}' and albums.visibility = '${p.visibility}')`)
  return sql.raw(`(${one.join(' or ')})`)
}

const newestFirst = [desc(albums.createdAt), desc(albums.id)]

// The albums that a caller sees, in three parts: each is in one of them. Fill the placeholders `org` and `caller`.
const isOwn = and(eq(albums.ownerId, caller), sql`not ${seenBy('members')}`)
const isOfEvent = and(eq(albums.eventId, eventParticipants.eventId), ne(albums.ownerId, caller), seenBy('participants'))
const takesPart = and(
  eq(eventParticipants.orgId, org),
  eq(eventParticipants.userId, caller),
  eq(eventParticipants.status, 'accepted'),
)
// There is one. The limit keeps the planner from reading all albums of the organization instead.
const albumOfEvent = (tx: Tx, position?: SQL) =>
  tx.select().from(albums).where(and(isOfEvent, position)).limit(1).as('albums')

/**
 * The queries whose pages, merged, are a page of the list. Each album is in exactly one of them, and none reads an album
 * that the caller does not see. The last one begins with the events of the caller, which are few compared with those of
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
  const ofOwnEvents = () =>
    tx
      .select(getTableColumns(albums))
      .from(eventParticipants)
      .crossJoinLateral(albumOfEvent(tx, position))
      .where(takesPart)
      .orderBy(...newestFirst)
      .limit(limit)
  return {
    all: () => pageOf(),
    visible: () => unionAll(pageOf(isOwn), pageOf(seenBy('members')), ofOwnEvents()),
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
  const ofOwnEvents = tx.select({ id }).from(eventParticipants).crossJoinLateral(albumOfEvent(tx)).where(takesPart)
  return unionAll(idsOf(isOwn), idsOf(seenBy('members')), ofOwnEvents).as('albums')
}

/** Newest first. */
export async function listAlbums(tx: Tx, o: Asked & PageWanted & { seesAll: boolean }): Promise<ShownAlbum[]> {
  const kind = o.seesAll ? 'all' : 'visible'
  const query = prepared(tx, `list_albums_${kind}_${o.after ? 'next' : 'first'}`, (name) => {
    const rows = partsOf(tx, o.after && afterCursor(albums.createdAt, albums.id))[kind]()
    return tx
      .select(shown)
      .from(rows.as('albums'))
      .orderBy(...newestFirst)
      .limit(limit)
      .prepare(name)
  })
  return query.execute({ org: o.orgId, caller: o.callerId, limit: o.limit, at: o.after?.at, id: o.after?.id })
}

// ---------------------------------------------------------------- media items of an album

const LISTED = sql`${albumMedia.listed}`

/**
 * The id of a media item in albums: of the video of a Live Photo, its image. The outer subquery makes
 * it a plain value: under row-level security Postgres uses no index for a comparison with `coalesce`.
 */
const isItem = (mediaId: Uuid) => sql`${albumMedia.mediaId} = (select coalesce(
  (select m.paired_media_id from media m where m.id = ${mediaId} and m.kind = 'video'), ${mediaId}::uuid))`

const item = {
  ...listed,
  position: albumMedia.position,
  caption: albumMedia.caption,
  addedBy: albumMedia.addedBy,
  addedAt: albumMedia.addedAt,
}
export type AlbumItem = ListedMedia & Pick<AlbumMediaRow, 'position' | 'caption' | 'addedBy' | 'addedAt'>

/** In the order of the album. */
export async function listItems(tx: Tx, { albumId, after, limit: most }: PageWanted & { albumId: Uuid }) {
  const next = after && sql`${albumMedia.position} > ${sql.placeholder('at')}::bigint`
  const query = prepared(tx, `list_album_media_${after ? 'next' : 'first'}`, (name) => {
    const page = tx
      .select()
      .from(albumMedia)
      .where(and(eq(albumMedia.albumId, sql.placeholder('album')), LISTED, next))
      .orderBy(asc(albumMedia.position))
      .limit(limit)
      .as('album_media')
    // There is one. The limit keeps the planner from reading the whole table where it takes the page for a large one.
    const itself = tx.select().from(media).where(eq(media.id, albumMedia.mediaId)).limit(1).as('media')
    return tx.select(item).from(page).crossJoinLateral(itself).orderBy(asc(albumMedia.position)).prepare(name)
  })
  return query.execute({ album: albumId, limit: most, at: after?.at })
}

export const countItems = (tx: Tx, albumId: Uuid): Promise<number> =>
  tx.$count(albumMedia, and(eq(albumMedia.albumId, albumId), LISTED))

/** The deleted ones included. */
export const countPlaces = (tx: Tx, albumId: Uuid): Promise<number> =>
  tx.$count(albumMedia, eq(albumMedia.albumId, albumId))

/** Returns the media items that are in the album and not deleted, with their captions. */
export async function findCaptions(
  tx: Tx,
  albumId: Uuid,
  mediaIds: readonly Uuid[],
): Promise<Map<Uuid, string | null>> {
  const { rows } = await tx.execute<{ id: Uuid; caption: string | null }>(sql`
    select chosen.id, i.caption from unnest(${sql.param(mediaIds)}::uuid[]) as chosen (id)
      join media m on m.id = chosen.id
      join album_media i on i.album_id = ${albumId} and i.listed
        and i.media_id = case when m.kind = 'video' then coalesce(m.paired_media_id, m.id) else m.id end`)
  return new Map(rows.map(({ id, caption }) => [id, caption]))
}

/** Undefined for a media item that is not in the album, or deleted. */
export async function findItem(tx: Tx, albumId: Uuid, mediaId: Uuid): Promise<AlbumItem | undefined> {
  const [row] = await tx
    .select(item)
    .from(albumMedia)
    .innerJoin(media, eq(media.id, albumMedia.mediaId))
    .where(and(eq(albumMedia.albumId, albumId), LISTED, isItem(mediaId)))
  return row
}

// ---------------------------------------------------------------- changes, with the album locked

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
async function setAlbum(tx: Tx, id: Uuid, columns: PgUpdateSetSource<typeof albums>): Promise<AlbumRow> {
  const [row] = await tx
    .update(albums)
    .set({ ...columns, version: sql`${albums.version} + 1`, updatedAt: sql`now()` })
    .where(eq(albums.id, id))
    .returning()
  if (!row) throw new Error(`the album ${id} was locked and is gone`)
  return row
}

export const updateAlbum = (tx: Tx, id: Uuid, columns: AlbumColumns = {}) => setAlbum(tx, id, columns)

/**
 * Adds a media item at the end. Undefined when the album has it already: then roll back. Call with the media item locked,
 * so that it cannot be deleted meanwhile.
 */
export async function insertItem(
  tx: Tx,
  albumId: Uuid,
  given: Pick<AlbumMediaRow, 'mediaId' | 'caption' | 'addedBy'>,
): Promise<AlbumRow | undefined> {
  const album = await setAlbum(tx, albumId, { nextPosition: sql`${albums.nextPosition} + ${STEP}` })
  const { rowCount } = await tx
    .insert(albumMedia)
    .values({ ...given, albumId, orgId: album.orgId, position: album.nextPosition - STEP, listed: true })
    .onConflictDoNothing({ target: [albumMedia.albumId, albumMedia.mediaId] })
  return rowCount === 1 ? album : undefined
}

/** With its places. The album of an event goes with its event. */
export async function removeAlbum(tx: Tx, id: Uuid): Promise<void> {
  await tx.delete(albums).where(eq(albums.id, id))
}

/** The media item itself stays. False when it is not in the album. */
export async function deleteItem(tx: Tx, albumId: Uuid, mediaId: Uuid): Promise<boolean> {
  const { rowCount } = await tx.delete(albumMedia).where(and(eq(albumMedia.albumId, albumId), LISTED, isItem(mediaId)))
  return rowCount === 1
}

export async function setCaption(tx: Tx, albumId: Uuid, mediaId: Uuid, caption: string | null): Promise<boolean> {
  const { rowCount } = await tx
    .update(albumMedia)
    .set({ caption })
    .where(and(eq(albumMedia.albumId, albumId), LISTED, isItem(mediaId)))
  return rowCount === 1
}

/** Locks them in the order of migration 0012: deletions and purges of media lock rows of several albums. */
const lockItems = (tx: Tx, albumId: Uuid, which: SQL | undefined) =>
  tx
    .select({ mediaId: albumMedia.mediaId })
    .from(albumMedia)
    .where(and(eq(albumMedia.albumId, albumId), which))
    .orderBy(asc(albumMedia.mediaId))
    .for('update')

/** False when the media item is not in the album. Null makes the first item the cover. */
export async function setCover(tx: Tx, albumId: Uuid, mediaId: Uuid | null): Promise<boolean> {
  const chosen = mediaId === null ? undefined : isItem(mediaId)
  await lockItems(tx, albumId, sql`(${albumMedia.isCover} or ${chosen ?? sql`false`})`)
  // Before the other: an index allows one cover.
  await tx
    .update(albumMedia)
    .set({ isCover: false })
    .where(and(eq(albumMedia.albumId, albumId), albumMedia.isCover))
  if (!chosen) return true
  const { rowCount } = await tx
    .update(albumMedia)
    .set({ isCover: true })
    .where(and(eq(albumMedia.albumId, albumId), LISTED, chosen))
  return rowCount === 1
}

/** In the order of the album, with the deleted ones. */
export async function listPlaces(tx: Tx, albumId: Uuid): Promise<Place[]> {
  const { mediaId, position, listed } = albumMedia
  // One text is read in a fraction of the time of five thousand rows.
  const [row] = await tx
    .select({
      places: sql<
        string | null
      >`string_agg(concat_ws(' ', ${mediaId}, ${position}, ${listed}), ',' order by ${position})`,
    })
    .from(albumMedia)
    .where(eq(albumMedia.albumId, albumId))
  return (row?.places?.split(',') ?? []).map((place) => {
    const [id = '', at, isListed] = place.split(' ')
    return { mediaId: id, position: Number(at), listed: isListed === 't' }
  })
}

/** Returns false and moves nothing when one of them has left the album: a purge or a pairing with an image removes it. */
export async function moveItems(tx: Tx, albumId: Uuid, moves: readonly Placed[]): Promise<boolean> {
  const ids = sql`${sql.param(moves.map(({ mediaId }) => mediaId))}::uuid[]`
  const positions = sql`${sql.param(moves.map(({ position }) => position))}::bigint[]`
  const locked = await lockItems(tx, albumId, sql`${albumMedia.mediaId} = any(${ids})`)
  if (locked.length < moves.length) return false
  await tx.execute(sql`
    update album_media i set position = move.position
      from unnest(${ids}, ${positions}) as move (media_id, position)
      where i.album_id = ${albumId} and i.media_id = move.media_id`)
  const last = Math.max(...moves.map(({ position }) => position))
  await tx
    .update(albums)
    .set({ nextPosition: sql`greatest(${albums.nextPosition}, ${last + STEP})` })
    .where(eq(albums.id, albumId))
  return true
}
