import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, eq, gte, isNull, sql } from '../../db/orm.ts'
import {
  type NotificationRow,
  notificationOptouts,
  notificationPreferences,
  type PersonalChannel,
  type Template,
} from '../../db/schema/notifications.ts'
import { users } from '../../db/schema/users.ts'
import type { ChannelName } from './channel.ts'
import { hashOfAddress, type Unsubscription } from './unsubscribe-token.ts'

export interface Preference {
  channel: PersonalChannel
  template: Template
  enabled: boolean
}

/** What the user has chosen; what is not in it is enabled. */
export const listPreferences = (tx: Tx, userId: Uuid): Promise<Preference[]> =>
  tx
    .select({
      channel: notificationPreferences.channel,
      template: notificationPreferences.template,
      enabled: notificationPreferences.enabled,
    })
    .from(notificationPreferences)
    .where(eq(notificationPreferences.userId, userId))

export async function savePreferences(tx: Tx, userId: Uuid, given: readonly Preference[]): Promise<void> {
  if (given.length === 0) return
  await tx
    .insert(notificationPreferences)
    .values(given.map((one) => ({ ...one, userId })))
    .onConflictDoUpdate({
      target: [notificationPreferences.userId, notificationPreferences.channel, notificationPreferences.template],
      set: { enabled: sql`excluded.enabled`, updatedAt: sql`now()` },
    })
}

/** Ends the mails of a template for a user or an address, or brings them back. A user that is gone stays gone. */
export async function saveUnsubscription(tx: Tx, { template, who }: Unsubscription, isEnabled: boolean): Promise<void> {
  if ('userId' in who) {
    const known = await tx.select({ id: users.id }).from(users).where(eq(users.id, who.userId))
    if (known.length > 0) await savePreferences(tx, who.userId, [{ channel: 'email', template, enabled: isEnabled }])
    return
  }
  const { addressHash } = who
  const o = notificationOptouts
  if (isEnabled) await tx.delete(o).where(and(eq(o.addressHash, addressHash), eq(o.template, template)))
  else await tx.insert(o).values({ addressHash, template }).onConflictDoNothing()
}

/**
 * Whether the account of the recipient was closed since: nothing more goes to who asked to be erased. Addresses are not unique:
 * what goes to an address is as well for an open account that has it.
 */
export async function isOfClosedAccount(
  tx: Tx,
  { userId, createdAt }: Pick<NotificationRow, 'userId' | 'createdAt'>,
  destination: string,
): Promise<boolean> {
  const recipient = userId === null ? eq(sql`lower(${users.email})`, destination) : eq(users.id, userId)
  const isClosed = (await tx.$count(users, and(recipient, gte(users.closedAt, createdAt)))) > 0
  return isClosed && (await tx.$count(users, and(recipient, isNull(users.closedAt)))) === 0
}

/** Whether the recipient wants nothing of this template through this channel, at this destination. */
export async function isUnwanted(
  tx: Tx,
  channel: ChannelName,
  { userId, template }: Pick<NotificationRow, 'userId' | 'template'>,
  destination: string,
): Promise<boolean> {
  if (channel === 'webhook') return false
  const p = notificationPreferences
  const chosen =
    userId === null
      ? []
      : await tx
          .select({ enabled: p.enabled })
          .from(p)
          .where(and(eq(p.userId, userId), eq(p.channel, channel), eq(p.template, template)))
  if (chosen.some(({ enabled }) => !enabled)) return true
  if (channel !== 'email') return false
  // An invitation by address may reach a user who has chosen, or who unsubscribed in a mail that was sent to the user.
  const [other] = await tx
    .select({ id: users.id })
    .from(users)
    .innerJoin(p, and(eq(p.userId, users.id), eq(p.channel, channel), eq(p.template, template), eq(p.enabled, false)))
    .where(eq(sql`lower(${users.email})`, destination))
    .limit(1)
  if (other) return true
  const o = notificationOptouts
  return (await tx.$count(o, and(eq(o.addressHash, hashOfAddress(destination)), eq(o.template, template)))) > 0
}
