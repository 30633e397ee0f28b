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
import { change } from '../../personal/queries.ts'

interface Told {
  userId: Uuid
  email: string | null
  phoneNumber: string | null
}

/** Closing the account deleted those that were registered before. */
export async function eraseDevices(tx: Tx, userId: Uuid): Promise<number> {
  await tx.execute(sql`delete from ${notificationPauses} where channel = 'push' and receiver in (
    select id::text from ${devices} where user_id = ${userId})`)
  return change(tx, sql`delete from ${devices} where user_id = ${userId}`)
}

/**
 * With their deliveries by every channel. What the receivers of webhooks answered may repeat what they got, also a name or
 * words of the person in a notification to someone else: no one can tell, so none of these answers is kept.
 */
export async function eraseNotifications(tx: Tx, { userId, email, phoneNumber }: Told): Promise<number> {
  const isTheirs = sql`(user_id = ${userId} or lower(email) = ${email}::text or phone_number = ${phoneNumber}::text)`
  await tx.execute(sql`update ${webhooks} set last_answer = null where last_answer is not null`)
  await tx.execute(sql`delete from ${notificationDeliveries} where channel = 'email' and destination = ${email}::text`)
  return change(tx, sql`delete from ${notifications} where ${isTheirs}`)
}

export async function erasePreferences(tx: Tx, { userId, email }: Told): Promise<number> {
  const addressHash = email === null ? null : hash('sha256', email, 'hex')
  const optouts = await change(tx, sql`delete from ${notificationOptouts} where address_hash = ${addressHash}::text`)
  return optouts + (await change(tx, sql`delete from ${notificationPreferences} where user_id = ${userId}`))
}
