import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { FIRST_ID, type OwnPage, type OwnRow } from '../../requests/own-data.ts'

export async function ownHighlights(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const { rows } = await tx.execute<OwnRow>(sql`
    select h.id as key, h.id as highlight_id, h.org_id, h.album_id, h.title, h.status, h.duration_sec, h.created_at,
      array(select i.media_id from highlight_items i where i.highlight_id = h.id order by i.position) as media_ids
    from highlights h
    where h.created_by = ${userId} and h.deleted_at is null and h.id > ${after ?? FIRST_ID}::uuid
    order by h.id limit ${limit}`)
  return rows
}
