import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { belongsTo } from '../../personal/queries.ts'
import { FIRST_ID, type OwnPage, type OwnRow } from '../../requests/own-data.ts'

/** Deleted ones too, while they are kept. */
export async function ownComments(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const { rows } = await tx.execute<OwnRow>(sql`
    select c.id as key, c.id as comment_id, c.event_id, case when ${belongsTo(sql`e.org_id`, sql`e.id`, userId)} then e.title end as event_title, c.media_id, c.body as text,
      array(select v.body from comment_versions v where v.comment_id = c.id order by v.version) as earlier_texts,
      c.created_at, c.updated_at, c.deleted_at
    from comments c join events e on e.id = c.event_id
    where c.author_id = ${userId} and c.id > ${after ?? FIRST_ID}::uuid order by c.id limit ${limit}`)
  return rows
}

export async function ownReactions(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const { rows } = await tx.execute<OwnRow>(sql`
    select r.id as key, r.id as reaction_id, r.emoji, r.event_id, case when ${belongsTo(sql`e.org_id`, sql`e.id`, userId)} then e.title end as event_title,
      case when r.target_type = 'comment' then r.target_id end as comment_id,
      case when r.target_type = 'media' then r.target_id end as media_id, r.created_at
    from reactions r join events e on e.id = r.event_id
    where r.user_id = ${userId} and r.id > ${after ?? FIRST_ID}::uuid order by r.id limit ${limit}`)
  return rows
}
