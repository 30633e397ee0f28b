import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { FIRST_ID, type OwnPage, type OwnRow, pairOf } from '../../requests/own-data.ts'

export async function ownAlbums(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const { rows } = await tx.execute<OwnRow>(sql`
    select id as key, id as album_id, org_id, event_id, title, description, visibility, status, created_at
    from albums where owner_id = ${userId} and id > ${after ?? FIRST_ID}::uuid order by id limit ${limit}`)
  return rows
}

/** Whose album and whose media item it may be: the person put it there, with this caption. */
export async function ownAlbumItems(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const [albumId, mediaId] = pairOf(after)
  const { rows } = await tx.execute<OwnRow>(sql`
    select i.album_id || '/' || i.media_id as key, i.album_id, a.title as album_title, i.media_id, i.caption, i.added_at
    from album_media i join albums a on a.id = i.album_id
    where i.added_by = ${userId} and (i.album_id, i.media_id) > (${albumId}::uuid, ${mediaId}::uuid)
    order by i.album_id, i.media_id limit ${limit}`)
  return rows
}
