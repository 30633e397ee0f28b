import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Database, Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { events } from '../../db/schema/events.ts'
import { invitations } from '../../db/schema/invitations.ts'
import type { ErasedPerson } from '../../personal/part.ts'
import { change, changeAll, ownAddresses, recordResources, successorIn } from '../../personal/queries.ts'

export const RECEIVED_STEP = 'invitations.received'

/**
 * Invitations to the person, in every form of address, and those that the person answered. Those to an address that another
 * account has, too, are the other's. Locks before it deletes.
 */
export async function eraseReceived(tx: Tx, person: ErasedPerson): Promise<number> {
  const { erasureId, userId } = person
  const { email, phoneNumber } = await ownAddresses(tx, person, RECEIVED_STEP)
  const { rows } = await tx.execute<{ id: Uuid }>(sql`select id from ${invitations}
    where user_id = ${userId} or responded_by = ${userId} or email = ${email}::text or phone_number = ${phoneNumber}::text
    order by id for update`)
  const ids = sql`any(${sql.param(rows.map(({ id }) => id))}::uuid[])`
  await recordResources(tx, erasureId, 'invitation', sql`select id, org_id from ${invitations} where id = ${ids}`)
  return change(tx, sql`delete from ${invitations} where id = ${ids}`)
}

/**
 * Who was invited by a person that has left can take no one in any more. So pending invitations of the person become those
 * of the event's owner, or of who would be now. `passEvent` gives them to another one if the event goes to another one.
 * The message is no longer shown. It goes with a later step, since a hold may keep it. An owner whose account is closed, too,
 * inherits nothing: the database refuses it.
 */
export const passInvitations = (db: Database, userId: Uuid): Promise<number> =>
  changeAll(
    db,
    (limit) => sql`update ${invitations} set invited_by = heirs.heir, message = null,
        former_inviter = coalesce(former_inviter, ${userId}), former_message = coalesce(former_message, message), version = version + 1, updated_at = now()
      from (select i.id, h.heir from ${invitations} i join ${events} e on e.id = i.event_id
        left join users owner on owner.id = e.owner_id and owner.id <> ${userId} and owner.closed_at is null
        cross join lateral (select coalesce(owner.id, ${successorIn(sql`i.org_id`, userId)}) as heir) h
        where i.invited_by = ${userId} and i.status = 'pending' and h.heir is not null
        order by i.id limit ${limit} for update of i) heirs
      where invitations.id = heirs.id`,
  )

/**
 * In invitations that were the person's, and that still are: those that were answered, and those that no one else could vouch
 * for.
 */
export async function eraseMessages(db: Database, userId: Uuid): Promise<number> {
  const former = await changeAll(
    db,
    (limit) => sql`update ${invitations} set former_inviter = null, former_message = null
      where ctid = any(array(select ctid from ${invitations} where former_inviter = ${userId} limit ${limit}))`,
  )
  const own = await changeAll(
    db,
    (limit) => sql`update ${invitations} set message = null, version = version + 1, updated_at = now()
      where ctid = any(array(select ctid from ${invitations} where invited_by = ${userId} and message is not null
        limit ${limit}))`,
  )
  return former + own
}
