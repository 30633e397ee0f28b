import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { albumMedia, albums } from '../../db/schema/albums.ts'
import { media } from '../../db/schema/media.ts'
import { change, holdSuccessor, recordResources } from '../../personal/queries.ts'
import { releaseAlbum } from '../events/deletion-queries.ts'

interface Whose {
  erasureId: Uuid
  userId: Uuid
}

/** Captions that the person wrote, in albums of anyone. Returns how many; call again while it returns `limit`. */
export async function eraseCaptions(tx: Tx, userId: Uuid, limit: number): Promise<number> {
  const isTheirs = sql`(caption_by = ${userId} or (caption is not null and caption_by is null and added_by = ${userId}))`
  // In the order of migration 0012.
  const { rows } = await tx.execute<{ albumId: Uuid; mediaId: Uuid }>(sql`
    select album_id as "albumId", media_id as "mediaId" from ${albumMedia} where ${isTheirs}
    order by media_id, album_id limit ${limit} for update`)
  const places = sql`select * from unnest(${sql.param(rows.map(({ albumId }) => albumId))}::uuid[],
    ${sql.param(rows.map(({ mediaId }) => mediaId))}::uuid[])`
  return change(
    tx,
    sql`update ${albumMedia} set caption = null, caption_by = null where (album_id, media_id) in (${places}) and ${isTheirs}`,
  )
}

/** Albums of the person that are left, and what was said of them already. */
export async function nextAlbums(tx: Tx, { erasureId, userId }: Whose): Promise<Uuid[]> {
  await recordResources(tx, erasureId, 'album', sql`select id, org_id from ${albums} where owner_id = ${userId}`)
  const { rows } = await tx.execute<{ id: Uuid }>(sql`select id from ${albums} where owner_id = ${userId} order by id`)
  return rows.map(({ id }) => id)
}

/** A title of which no one is the author. */
const TITLE = 'Album'

/**
 * An album in which others have media items that are not being purged, as those of the person are, or which is an event's, gets another owner and a title of no one; one without
 * anything of others is deleted. Locks the event before the album, as all do.
 */
export async function passAlbum(tx: Tx, id: Uuid, userId: Uuid): Promise<'passed' | 'deleted' | 'gone'> {
  await tx.execute(sql`select from events where id = (select event_id from ${albums} where id = ${id}) for share`)
  const { rows } = await tx.execute<{ orgId: Uuid; isShared: boolean }>(sql`
    select org_id as "orgId", event_id is not null or exists (select from ${albumMedia} i join ${media} m on m.id = i.media_id
        where i.album_id = albums.id and m.purging_at is null) as "isShared"
    from ${albums} where id = ${id} and owner_id = ${userId} for update`)
  const [album] = rows
  if (!album) return 'gone'
  if (!album.isShared) {
    await releaseAlbum(tx, id)
    await change(tx, sql`delete from ${albums} where id = ${id}`)
    return 'deleted'
  }
  const heir = await holdSuccessor(tx, album.orgId, userId)
  await tx.execute(sql`update ${albums} set owner_id = coalesce(${heir}::uuid, owner_id),
    title = ${TITLE}, description = null, version = version + 1, updated_at = now() where id = ${id}`)
  return 'passed'
}
