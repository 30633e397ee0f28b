import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, eq, inArray, isNotNull, or, sql } from '../../db/orm.ts'
import { events } from '../../db/schema/events.ts'
import { type NotificationRow, notifications, PERSONAL_CHANNELS, TEMPLATES } from '../../db/schema/notifications.ts'
import { users } from '../../db/schema/users.ts'
import type { DownloadKey } from '../downloads/queries.ts'
import { isParticipant } from '../events/queries.ts'
import type { Addressed, ChannelName } from './channel.ts'

export { PERSONAL_CHANNELS, TEMPLATES }

export interface DueInvitation {
  invitationId: Uuid
  generation: number
}

/**
 * A notification for each of these invitations that is pending with this generation and has none. Inviters who invited
 * themselves get none. Returns the new ones.
 */
export async function insertInvited(tx: Tx, due: readonly DueInvitation[]): Promise<Uuid[]> {
  const { rows } = await tx.execute<{ id: Uuid }>(sql`
    insert into notifications (id, org_id, template, event_id, user_id, email, phone_number, invitation_id, generation)
    select given.id, i.org_id, 'EventInvitation.v1', i.event_id, i.user_id, i.email, i.phone_number, i.id, i.generation
    from unnest(${sql.param(due.map(() => newUuid()))}::uuid[],
        ${sql.param(due.map((one) => one.invitationId))}::uuid[],
        ${sql.param(due.map((one) => one.generation))}::integer[]) as given (id, invitation_id, generation)
      join invitations i on i.id = given.invitation_id and i.generation = given.generation and i.status = 'pending'
      join users inviter on inviter.id = i.invited_by
    where i.user_id is distinct from inviter.id
      and (i.email is null or i.email is distinct from lower(inviter.email))
      and (i.phone_number is null or i.phone_number is distinct from inviter.phone_number)
    on conflict do nothing returning id`)
  return rows.map(({ id }) => id)
}

export interface DueMention {
  commentId: Uuid
  userId: Uuid
}

/** A notification for each of these mentions in a comment that exists and is not the user's own. Returns the new ones. */
export async function insertMentioned(tx: Tx, due: readonly DueMention[]): Promise<Uuid[]> {
  const { rows } = await tx.execute<{ id: Uuid }>(sql`
    insert into notifications (id, org_id, template, event_id, user_id, comment_id)
    select given.id, c.org_id, 'Mention.v1', c.event_id, u.id, c.id
    from unnest(${sql.param(due.map(() => newUuid()))}::uuid[],
        ${sql.param(due.map((one) => one.commentId))}::uuid[],
        ${sql.param(due.map((one) => one.userId))}::uuid[]) as given (id, comment_id, user_id)
      join comments c on c.id = given.comment_id and c.deleted_at is null
      join users u on u.id = given.user_id and u.id <> c.author_id
    on conflict do nothing returning id`)
  return rows.map(({ id }) => id)
}

export interface DuePurge {
  eventId: Uuid
  notice: 'first' | 'last'
  purgeAt: string
}

/**
 * A notification for each of these notices that is still true: to the owner of the event, or to the owners of the organization
 * where the owner of the event is no member any more. Returns the new ones.
 */
export async function insertPurgeSoon(tx: Tx, due: readonly DuePurge[]): Promise<Uuid[]> {
  if (due.length === 0) return []
  const { rows } = await tx.execute<{ id: Uuid }>(sql`
    insert into notifications (id, org_id, template, event_id, user_id, purge_notice, purge_at)
    select gen_random_uuid(), e.org_id, 'EventPurgeSoon.v1', e.id, m.user_id, given.notice, given.purge_at
    from unnest(${sql.param(due.map((one) => one.eventId))}::uuid[],
        ${sql.param(due.map((one) => PURGE_NOTICES[one.notice]))}::smallint[],
        ${sql.param(due.map((one) => one.purgeAt))}::timestamptz[]) as given (event_id, notice, purge_at)
      join events e on e.id = given.event_id and e.purge_notice_for = given.purge_at
      join memberships m on m.org_id = e.org_id and ${isToldOfPurge}
    on conflict do nothing returning id`)
  await markHandled(tx, due)
  return rows.map(({ id }) => id)
}
const PURGE_NOTICES = { first: 1, last: 2 } as const

/**
 * Purges wait for these last notices no longer than for their deliveries. Also where no one is there to be told. In order of id,
 * as others lock several events, and without the keys: who inserts what refers to an event is not waited for.
 */
async function markHandled(tx: Tx, due: readonly DuePurge[]): Promise<void> {
  const last = due.filter(({ notice }) => notice === 'last')
  if (last.length === 0) return
  await tx.execute(sql`update ${events} set purge_notice_unhandled = false where id = any(array(
    select e.id from ${events} e join unnest(${sql.param(last.map((one) => one.eventId))}::uuid[],
        ${sql.param(last.map((one) => one.purgeAt))}::timestamptz[]) as given (event_id, purge_at)
      on e.id = given.event_id and e.purge_notice_for = given.purge_at
    where e.purge_notice_unhandled order by e.id for no key update of e))`)
}

/** Whether the member `m` is told of the purge of the event `e`. */
const isToldOfPurge = sql`(m.user_id = e.owner_id or m.role = 'owner' and not exists (
  select from memberships o where o.org_id = e.org_id and o.user_id = e.owner_id))`

/** The event, as long as it will be purged at the time that the notification names, and is the user's to care for. */
export async function findEventToPurge(
  tx: Tx,
  o: { eventId: Uuid; userId: Uuid; purgeAt: Date },
): Promise<{ title: string } | undefined> {
  const { rows } = await tx.execute<{ title: string }>(sql`
    select e.title from events e join memberships m on m.org_id = e.org_id and m.user_id = ${o.userId}
    where e.id = ${o.eventId} and e.purge_notice_for = ${o.purgeAt.toISOString()}::timestamptz and ${isToldOfPurge}`)
  return rows[0]
}

/** A notification of this download, unless there is one. Returns whether it is new. */
export async function insertDownloadReady(tx: Tx, { id, userId }: DownloadKey): Promise<boolean> {
  const row = { id: id as Uuid, template: 'DownloadReady.v1' as const, userId, downloadId: id }
  return (
    (await tx.insert(notifications).values(row).onConflictDoNothing().returning({ id: notifications.id })).length > 0
  )
}

/** Deliveries that are not there yet, and wakes the senders at the commit. `suppressed`: why none of them is sent. */
export async function insertDeliveries(
  tx: Tx,
  channel: ChannelName,
  addressed: readonly Addressed[],
  suppressed: string | undefined,
): Promise<void> {
  if (addressed.length === 0) return
  await tx.execute(sql`
    insert into notification_deliveries (id, org_id, notification_id, channel, destination, state, reason)
    select given.id, n.org_id, n.id, ${channel}, given.destination,
      ${suppressed === undefined ? 'pending' : 'suppressed'}, ${suppressed ?? null}
    from unnest(${sql.param(addressed.map(() => newUuid()))}::uuid[],
        ${sql.param(addressed.map((one) => one.notificationId))}::uuid[],
        ${sql.param(addressed.map((one) => one.destination))}::text[]) as given (id, notification_id, destination)
      join notifications n on n.id = given.notification_id
    on conflict do nothing`)
  await tx.execute(sql`select pg_notify('notifications', '')`)
}

/** The e-mail addresses of the recipients who have one, in lower case; of users the verified one. */
export async function mailAddressesOf(tx: Tx, notificationIds: readonly Uuid[]): Promise<Addressed[]> {
  const address = sql<string>`lower(coalesce(${notifications.email}, ${users.email}))`
  return tx
    .select({ notificationId: notifications.id, destination: address })
    .from(notifications)
    .leftJoin(users, eq(users.id, notifications.userId))
    .where(and(inArray(notifications.id, [...notificationIds]), isNotNull(address)))
}

export async function findNotification(tx: Tx, id: Uuid): Promise<NotificationRow | undefined> {
  const [row] = await tx.select().from(notifications).where(eq(notifications.id, id))
  return row
}

/** After a renewal of its link: what the sender does with the notification next is about the new one. */
export async function followGeneration(tx: Tx, id: Uuid, generation: number): Promise<void> {
  await tx.update(notifications).set({ generation }).where(eq(notifications.id, id))
}

/** What is known of the recipient as a user; all null for an address. */
export async function findRecipient(
  tx: Tx,
  { userId }: Pick<NotificationRow, 'userId'>,
): Promise<{ email: string | null; locale: string | null }> {
  const none = { email: null, locale: null }
  if (userId === null) return none
  const [row] = await tx.select({ email: users.email, locale: users.locale }).from(users).where(eq(users.id, userId))
  return row ?? none
}

/** The name of a member, or of a guest of the event; null for a user who is neither, or not any more. */
export async function findNameAt(
  tx: Tx,
  { orgId, eventId, userId }: { orgId: Uuid; eventId: Uuid; userId: Uuid },
): Promise<string | null> {
  const isMember = sql`exists (select from memberships m where m.org_id = ${orgId} and m.user_id = users.id)`
  const isGuest = isParticipant(sql`${eventId}`, sql`users.id`)
  const [row] = await tx
    .select({ name: users.displayName })
    .from(users)
    .where(and(eq(users.id, userId), or(isMember, isGuest)))
  return row?.name ?? null
}
