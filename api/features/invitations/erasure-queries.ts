import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Database, Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { invitations } from '../../db/schema/invitations.ts'
import { change, changeAll, recordResources } from '../../personal/queries.ts'

interface Invitee {
  erasureId: Uuid
  userId: Uuid
  email: string | null
  phoneNumber: string | null
}

/** Invitations to the person, in every form of address, and those that the person answered. Locks before it deletes. */
export async function eraseReceived(tx: Tx, { erasureId, userId, email, phoneNumber }: Invitee): Promise<number> {
  const { rows } = await tx.execute<{ id: Uuid }>(sql`select id from ${invitations}
    where user_id = ${userId} or responded_by = ${userId} or email = ${email}::text or phone_number = ${phoneNumber}::text
    order by id for update`)
  const ids = sql`any(${sql.param(rows.map(({ id }) => id))}::uuid[])`
  await recordResources(tx, erasureId, 'invitation', sql`select id, org_id from ${invitations} where id = ${ids}`)
  return change(tx, sql`delete from ${invitations} where id = ${ids}`)
}

/** Invitations that the person sent: they are to events that stay. */
export const eraseMessages = (db: Database, userId: Uuid): Promise<number> =>
  changeAll(
    db,
    (limit) => sql`update ${invitations} set message = null, version = version + 1, updated_at = now()
      where ctid = any(array(select ctid from ${invitations} where invited_by = ${userId} and message is not null
        limit ${limit}))`,
  )
