import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, asc, eq, inArray, sql } from '../../db/orm.ts'
import { type AlbumRow, albumMedia, albums } from '../../db/schema/albums.ts'
import { commentMedia, comments } from '../../db/schema/comments.ts'
import { events } from '../../db/schema/events.ts'
import { highlights } from '../../db/schema/highlights.ts'
import { invitations } from '../../db/schema/invitations.ts'
import { media } from '../../db/schema/media.ts'

/** The album of an event, locked. Lock the event first. */
export async function lockAlbumOf(tx: Tx, orgId: Uuid, eventId: Uuid): Promise<AlbumRow | undefined> {
  const [row] = await tx
    .select()
    .from(albums)
    .where(and(eq(albums.orgId, orgId), eq(albums.eventId, eventId)))
    .for('update')
  return row
}

/**
 * Keeps the media items that are attached to comments of the event from being purged. A purge locks them and then their
 * attachments, in another order than the deletion of the comments. Call it before places of an album are locked: media
 * items come first everywhere.
 */
export async function holdAttachedMedia(tx: Tx, eventId: Uuid): Promise<void> {
  const attached = tx
    .select({ id: commentMedia.mediaId })
    .from(commentMedia)
    .innerJoin(comments, eq(comments.id, commentMedia.commentId))
    .where(eq(comments.eventId, eventId))
  await tx
    .select({ id: media.id })
    .from(media)
    .where(inArray(media.id, attached))
    .orderBy(asc(media.id))
    .for('key share')
}

/**
 * Prepares the deletion of an album that is locked: its highlights stay, without an album. The cascade would lock the rows
 * in any order; here several highlights are locked in order of id, and then the places in the order of migration 0012.
 */
export async function releaseAlbum(tx: Tx, id: Uuid): Promise<void> {
  const isOfAlbum = eq(highlights.albumId, id)
  await tx.select({ id: highlights.id }).from(highlights).where(isOfAlbum).orderBy(asc(highlights.id)).for('update')
  // `updated_at` stays: the deadlines of a render count from it.
  await tx
    .update(highlights)
    .set({ albumId: null, version: sql`${highlights.version} + 1` })
    .where(isOfAlbum)
  await tx
    .select({ mediaId: albumMedia.mediaId })
    .from(albumMedia)
    .where(eq(albumMedia.albumId, id))
    .orderBy(asc(albumMedia.mediaId))
    .for('update')
}

/**
 * Deletes an event that is locked, with all that belongs to it. The invitations are locked before the participants, which
 * the cascade would begin with: the end of a membership locks both.
 */
export async function removeEvent(tx: Tx, id: Uuid): Promise<void> {
  const isOfEvent = eq(invitations.eventId, id)
  await tx.select({ id: invitations.id }).from(invitations).where(isOfEvent).orderBy(asc(invitations.id)).for('update')
  await tx.delete(events).where(eq(events.id, id))
}
