import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, asc, eq, getTableColumns, type SQL, sql } from '../../db/orm.ts'
import { prepared } from '../../db/prepared.ts'
import type { RowOf } from '../../db/row-of.ts'
import { type AlbumMediaRow, type AlbumRow, albumMedia, albums } from '../../db/schema/albums.ts'
import { media } from '../../db/schema/media.ts'
import type { PageWanted } from '../../requests/page.ts'
import { listed } from '../media/queries.ts'
import { STEP } from './plan.ts'
import { type Asked, decisive, type SeenAlbum, setAlbum } from './queries.ts'

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
export type AlbumItem = RowOf<typeof item>

/** In the order of the album. */
export async function listItems(tx: Tx, { albumId, after, limit }: PageWanted & { albumId: Uuid }) {
  const next = after && sql`${albumMedia.position} > ${sql.placeholder('at')}::bigint`
  return prepared(tx, `list_album_media_${after ? 'next' : 'first'}`, { album: albumId, limit, at: after?.at }, () => {
    const page = tx
      .select()
      .from(albumMedia)
      .where(and(eq(albumMedia.albumId, sql.placeholder('album')), LISTED, next))
      .orderBy(asc(albumMedia.position))
      .limit(sql.placeholder('limit'))
      .as('album_media')
    // There is one. The limit keeps the planner from reading the whole table where it takes the page for a large one.
    const itself = tx.select().from(media).where(eq(media.id, albumMedia.mediaId)).limit(1).as('media')
    return tx.select(item).from(page).crossJoinLateral(itself).orderBy(asc(albumMedia.position))
  })
}

export const countItems = (tx: Tx, albumId: Uuid): Promise<number> =>
  tx.$count(albumMedia, and(eq(albumMedia.albumId, albumId), LISTED))

/** The deleted ones included. */
export const countPlaces = (tx: Tx, albumId: Uuid): Promise<number> =>
  tx.$count(albumMedia, eq(albumMedia.albumId, albumId))

/**
 * Returns the media items that are in the album and not deleted, with their captions and who wrote those. A caption whose
 * author is being erased counts as removed: it must not get into a new film.
 */
export async function findCaptions(tx: Tx, albumId: Uuid, mediaIds: readonly Uuid[]): Promise<Map<Uuid, Caption>> {
  const { rows } = await tx.execute<{ id: Uuid } & Caption>(sql`
    select chosen.id, case when w.id is not null then i.caption end as caption, w.id as "captionBy"
      from unnest(${sql.param(mediaIds)}::uuid[]) as chosen (id)
      join media m on m.id = chosen.id
      join album_media i on i.album_id = ${albumId} and i.listed
        and i.media_id = case when m.kind = 'video' then coalesce(m.paired_media_id, m.id) else m.id end
      left join users w on i.caption is not null and w.id = coalesce(i.caption_by, i.added_by) and w.closed_at is null`)
  return new Map(rows.map(({ id, caption, captionBy }) => [id, { caption, captionBy }]))
}

type Caption = Pick<AlbumMediaRow, 'caption' | 'captionBy'>

/** Undefined for a media item that is not in the album, or deleted. */
export async function findItem(tx: Tx, albumId: Uuid, mediaId: Uuid): Promise<AlbumItem | undefined> {
  const [row] = await tx
    .select(item)
    .from(albumMedia)
    .innerJoin(media, eq(media.id, albumMedia.mediaId))
    .where(and(eq(albumMedia.albumId, albumId), LISTED, isItem(mediaId)))
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

/**
 * Adds a media item at the end. Undefined when the album has it already: then roll back. Call with the media item locked,
 * so that it cannot be deleted meanwhile.
 */
export async function insertItem(
  tx: Tx,
  albumId: Uuid,
  given: Pick<AlbumMediaRow, 'mediaId' | 'caption' | 'addedBy' | 'captionBy'>,
): Promise<AlbumRow | undefined> {
  const album = await setAlbum(tx, albumId, { nextPosition: sql`${albums.nextPosition} + ${STEP}` })
  const { rowCount } = await tx
    .insert(albumMedia)
    .values({ ...given, albumId, orgId: album.orgId, position: album.nextPosition - STEP, listed: true })
    .onConflictDoNothing({ target: [albumMedia.albumId, albumMedia.mediaId] })
  return rowCount === 1 ? album : undefined
}

/** The media item itself stays. False when it is not in the album. */
export async function deleteItem(tx: Tx, albumId: Uuid, mediaId: Uuid): Promise<boolean> {
  const { rowCount } = await tx.delete(albumMedia).where(and(eq(albumMedia.albumId, albumId), LISTED, isItem(mediaId)))
  return rowCount === 1
}

export async function setCaption(
  tx: Tx,
  albumId: Uuid,
  mediaId: Uuid,
  { caption, captionBy }: Pick<AlbumMediaRow, 'caption' | 'captionBy'>,
): Promise<boolean> {
  const { rowCount } = await tx
    .update(albumMedia)
    .set({ caption, captionBy })
    .where(and(eq(albumMedia.albumId, albumId), LISTED, isItem(mediaId)))
  return rowCount === 1
}

/** Locks them in the order of migration 0012: deletions and purges of media lock rows of several albums. */
export const lockItems = (tx: Tx, albumId: Uuid, which: SQL | undefined) =>
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
