import { and, eq, getTableColumns, type Placeholder, sql } from 'drizzle-orm'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { type AlbumRow, albumMedia, albums } from '../db/schema/albums.ts'
import type { EventStatus } from '../db/schema/events.ts'

/** What the rules of `policy.ts` decide on. */
export type SeenAlbum = AlbumRow & {
  /** Whether the caller has accepted an invitation to the album's event. */
  isParticipant: boolean
  eventStatus: EventStatus | null
}

/** Names are written out: in a query of one table drizzle leaves out the table. */
const seenBy = (callerId: Uuid | Placeholder) => ({
  ...getTableColumns(albums),
  isParticipant: sql<boolean>`exists (select from event_participants p
    where p.event_id = albums.event_id and p.user_id = ${callerId} and p.status = 'accepted')`,
  eventStatus: sql<EventStatus | null>`(select e.status from events e where e.id = albums.event_id)`,
})

interface Asked {
  orgId: Uuid
  callerId: Uuid
}

/**
 * An album in whatever state, with what decides whether the caller may see it. The lock order is event, album, media,
 * rows of album_media (migration 0012): a transaction that changes an album locks its event `for share` first, then the
 * album, and then the media item that it adds.
 */
export async function findAlbum(
  tx: Tx,
  { orgId, id, callerId, lock = false }: Asked & { id: Uuid; lock?: boolean },
): Promise<SeenAlbum | undefined> {
  const query = tx
    .select(seenBy(callerId))
    .from(albums)
    .where(and(eq(albums.orgId, orgId), eq(albums.id, id)))
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
    .select(seenBy(callerId))
    .from(albums)
    .innerJoin(albumMedia, eq(albumMedia.albumId, albums.id))
    .where(
      and(
        eq(albums.orgId, orgId),
        eq(albums.eventId, eventId),
        sql`${albumMedia.listed} and ${albumMedia.mediaId} = ${imageOf(mediaId)}`,
      ),
    )
  return row
}

/** The id of a media item in albums: of the video of a Live Photo, its image. */
const imageOf = (mediaId: Uuid) => sql`coalesce(
  (select m.paired_media_id from media m where m.id = ${mediaId} and m.kind = 'video'), ${mediaId}::uuid)`
