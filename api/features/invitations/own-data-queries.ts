import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { FIRST_ID, type OwnPage, type OwnRow } from '../../requests/own-data.ts'

/** With what was written to the person. */
export async function ownReceivedInvitations(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const { rows } = await tx.execute<OwnRow>(sql`
    select i.id as key, i.id as invitation_id, i.event_id, e.title as event_title, e.start_at, i.message, i.status,
      i.response_message, i.created_at, i.responded_at, i.opened_at, i.clicked_at
    from invitations i join events e on e.id = i.event_id
    where i.user_id = ${userId} and i.id > ${after ?? FIRST_ID}::uuid order by i.id limit ${limit}`)
  return rows
}

/** With the addresses that the person typed, and without what others answered. */
export async function ownSentInvitations(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const { rows } = await tx.execute<OwnRow>(sql`
    select i.id as key, i.id as invitation_id, i.event_id, e.title as event_title, i.email, i.phone_number, i.user_id,
      i.message, i.status, i.created_at
    from invitations i join events e on e.id = i.event_id
    where i.invited_by = ${userId} and i.id > ${after ?? FIRST_ID}::uuid order by i.id limit ${limit}`)
  return rows
}
