import type { Tx } from '../../db/db.ts'
import { type SQL, sql } from '../../db/orm.ts'
import { belongsTo } from '../../personal/queries.ts'
import { FIRST_ID, type OwnPage, type OwnRow, pairOf } from '../../requests/own-data.ts'

export async function ownAlbums(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const { rows } = await tx.execute<OwnRow>(sql`
    select id as key, id as album_id, org_id, event_id, title, description, visibility, status, created_at
    from albums where owner_id = ${userId} and id > ${after ?? FIRST_ID}::uuid order by id limit ${limit}`)
  return rows
}

/**
 * What the person put into albums of anyone, and what the person wrote below media items there. What another one wrote
 * below an item is not the person's.
 */
export async function ownAlbumItems(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const [albumId, mediaId] = pairOf(after)
  const next = (by: SQL) => sql`(select i.album_id, i.media_id from album_media i
    where ${by} = ${userId} and (i.album_id, i.media_id) > (${albumId}::uuid, ${mediaId}::uuid)
    order by i.album_id, i.media_id limit ${limit})`
  const { rows } = await tx.execute<OwnRow>(sql`
    select i.album_id || '/' || i.media_id as key, i.album_id, i.media_id,
      case when ${belongsTo(sql`a.org_id`, sql`a.event_id`, userId)} then a.title end as album_title,
      case when coalesce(i.caption_by, i.added_by) = ${userId} then i.caption end as caption,
      i.added_by = ${userId} as added_by_you, i.added_at
    from (${next(sql`i.added_by`)} union ${next(sql`i.caption_by`)}) mine
    join album_media i using (album_id, media_id)
    join albums a on a.id = i.album_id
    order by i.album_id, i.media_id limit ${limit}`)
  return rows
}
