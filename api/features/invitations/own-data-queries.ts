import type { Tx } from '../../db/db.ts'
import { type SQL, sql } from '../../db/orm.ts'
import { belongsTo } from '../../personal/queries.ts'
import { FIRST_ID, type OwnPage, type OwnRow } from '../../requests/own-data.ts'

/**
 * Invitations to the person in every form of address, and those that the person answered, with what was written to the
 * person. What another one has answered with the link is not the person's.
 */
export async function ownReceivedInvitations(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const next = (which: SQL) => sql`(select i.id from invitations i
    where ${which} and i.id > ${after ?? FIRST_ID}::uuid order by i.id limit ${limit})`
  const isOpen = sql`coalesce(i.responded_by, ${userId}) = ${userId}`
  // Who is invited sees to what.
  const isSeen = sql`(i.status = 'pending' or ${belongsTo(sql`e.org_id`, sql`e.id`, userId)})`
  const of = (column: SQL) => sql`(select ${column} from users where id = ${userId})`
  const { rows } = await tx.execute<OwnRow>(sql`
    select i.id as key, i.id as invitation_id, i.event_id, i.message, i.status,
      case when ${isSeen} then e.title end as event_title, case when ${isSeen} then e.start_at end as start_at,
      case when ${isOpen} then i.response_message end as response_message,
      i.created_at, i.responded_at, i.opened_at, i.clicked_at
    from (${next(sql`i.user_id = ${userId}`)}
      union ${next(sql`i.responded_by = ${userId}`)}
      union ${next(sql`i.email = ${of(sql`lower(email)`)} and ${isOpen}`)}
      union ${next(sql`i.phone_number = ${of(sql`phone_number`)} and ${isOpen}`)}) mine
    join invitations i on i.id = mine.id
    join events e on e.id = i.event_id
    order by i.id limit ${limit}`)
  return rows
}

/** With the addresses that the person typed, and without what others answered. */
export async function ownSentInvitations(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const { rows } = await tx.execute<OwnRow>(sql`
    select i.id as key, i.id as invitation_id, i.event_id,
      case when ${belongsTo(sql`e.org_id`, sql`e.id`, userId)} then e.title end as event_title, i.email, i.phone_number, i.user_id,
      i.message, i.status, i.created_at
    from invitations i join events e on e.id = i.event_id
    where i.invited_by = ${userId} and i.id > ${after ?? FIRST_ID}::uuid order by i.id limit ${limit}`)
  return rows
}
