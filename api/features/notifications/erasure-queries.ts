import { hash } from 'node:crypto'
import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { devices } from '../../db/schema/devices.ts'
import {
  notificationDeliveries,
  notificationOptouts,
  notificationPauses,
  notificationPreferences,
  notifications,
} from '../../db/schema/notifications.ts'
import { webhooks } from '../../db/schema/webhooks.ts'
import type { ErasedPerson } from '../../personal/part.ts'
import { change, ownAddresses } from '../../personal/queries.ts'

export const MESSAGES_STEP = 'notifications.messages'
export const PREFERENCES_STEP = 'notifications.preferences'

type Told = Pick<ErasedPerson, 'userId' | 'email' | 'phoneNumber'>

/** Closing the account deleted those that were registered before. */
export async function eraseDevices(tx: Tx, userId: Uuid): Promise<number> {
  await tx.execute(sql`delete from ${notificationPauses} where channel = 'push' and receiver in (
    select id::text from ${devices} where user_id = ${userId})`)
  return change(tx, sql`delete from ${devices} where user_id = ${userId}`)
}

/** The notifications to the person that have a mail: in a folder, its file has the name of the notification. */
export async function listMailed(tx: Tx, userId: Uuid): Promise<Uuid[]> {
  const { rows } = await tx.execute<{ id: Uuid }>(sql`select n.id from ${notifications} n where n.user_id = ${userId}
    and exists (select from ${notificationDeliveries} d where d.notification_id = n.id and d.channel = 'email')`)
  return rows.map(({ id }) => id)
}

/**
 * With their deliveries by every channel. Those to another user stay also where they went to the address: a purge may wait for
 * one. What the receivers of webhooks answered may repeat what they got, also a name or
 * words of the person in a notification to someone else: no one can tell, so none of these answers is kept.
 */
export async function eraseNotifications(tx: Tx, person: Told): Promise<number> {
  const { userId } = person
  const { email, phoneNumber } = await ownAddresses(tx, person, MESSAGES_STEP)
  await tx.execute(sql`update ${webhooks} set last_answer = null where last_answer is not null`)
  await tx.execute(sql`delete from ${notificationDeliveries} d where d.channel = 'email' and d.destination = ${email}::text
    and not exists (select from ${notifications} n where n.id = d.notification_id and n.user_id <> ${userId})`)
  return change(
    tx,
    sql`delete from ${notifications}
      where user_id = ${userId} or lower(email) = ${email}::text or phone_number = ${phoneNumber}::text`,
  )
}

export async function erasePreferences(tx: Tx, person: Told): Promise<number> {
  const { email } = await ownAddresses(tx, person, PREFERENCES_STEP)
  const addressHash = email === null ? null : hash('sha256', email, 'hex')
  const optouts = await change(tx, sql`delete from ${notificationOptouts} where address_hash = ${addressHash}::text`)
  return optouts + (await change(tx, sql`delete from ${notificationPreferences} where user_id = ${person.userId}`))
}
