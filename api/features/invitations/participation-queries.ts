import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, eq, or, type SQL, sql } from '../../db/orm.ts'
import { prepared } from '../../db/prepared.ts'
import { eventParticipants, type ParticipantStatus } from '../../db/schema/events.ts'
import { memberships } from '../../db/schema/organizations.ts'
import { users } from '../../db/schema/users.ts'
import { type NewInvitation, required } from './queries.ts'

/** Whether the invitee is known to be a member: by user id, verified e-mail address or verified phone number. */
export async function isMember(
  tx: Tx,
  orgId: Uuid,
  { userId, email, phoneNumber }: Pick<NewInvitation, 'userId' | 'email' | 'phoneNumber'>,
): Promise<boolean> {
  const addressed = or(
    userId === null ? undefined : eq(users.id, userId),
    email === null ? undefined : eq(sql`lower(${users.email})`, email),
    phoneNumber === null ? undefined : eq(users.phoneNumber, phoneNumber),
  )
  if (!addressed) return false
  const [row] = await tx
    .select({ id: users.id })
    .from(memberships)
    .innerJoin(users, eq(users.id, memberships.userId))
    .where(and(eq(memberships.orgId, orgId), addressed))
    .limit(1)
  return row !== undefined
}

/** Makes the membership, or locks the one that another transaction has just made. */
export async function joinOrganization(tx: Tx, orgId: Uuid, userId: Uuid): Promise<{ isNew: boolean; joinedAt: Date }> {
  const [row] = await tx
    .insert(memberships)
    .values({ orgId, userId, role: 'member' })
    .onConflictDoUpdate({ target: [memberships.orgId, memberships.userId], set: { role: sql`${memberships.role}` } })
    .returning({ isNew: sql<boolean>`xmax = 0`, joinedAt: memberships.joinedAt })
  return required(row)
}

export async function isParticipating(tx: Tx, eventId: Uuid, userId: Uuid): Promise<boolean> {
  const accepted = and(
    eq(eventParticipants.eventId, eventId),
    eq(eventParticipants.userId, userId),
    eq(eventParticipants.status, 'accepted'),
  )
  return (await tx.$count(eventParticipants, accepted)) > 0
}

interface Participation {
  eventId: Uuid
  userId: Uuid
  orgId: Uuid
}

/** A user who has accepted stays accepted. */
export const markInvited = (tx: Tx, who: Participation) =>
  upsertParticipant(tx, who, 'invited', sql`${eventParticipants.status} = 'declined'`)

/** The time of the first acceptance stays. */
export const markAccepted = (tx: Tx, who: Participation) =>
  upsertParticipant(tx, who, 'accepted', sql`${eventParticipants.status} <> 'accepted'`)

/** To decline one invitation does not end a participation that another invitation began. */
export const markDeclined = (tx: Tx, who: Participation) =>
  upsertParticipant(tx, who, 'declined', sql`${eventParticipants.status} = 'invited'`)

async function upsertParticipant(
  tx: Tx,
  who: Participation,
  status: ParticipantStatus,
  /** Which rows of an earlier participation change. */
  setWhere: SQL,
): Promise<void> {
  await prepared(tx, `mark_${status}`, { ...who }, () => {
    const set = { status, joinedAt: status === 'accepted' ? sql`now()` : null }
    const values = {
      eventId: sql.placeholder('eventId'),
      userId: sql.placeholder('userId'),
      orgId: sql.placeholder('orgId'),
    }
    return tx
      .insert(eventParticipants)
      .values({ ...values, ...set })
      .onConflictDoUpdate({ target: [eventParticipants.eventId, eventParticipants.userId], set, setWhere })
  })
}

/** The same for a user who is not a member, and has a row only if invited by user id. */
export async function declineInvited(tx: Tx, eventId: Uuid, userId: Uuid): Promise<void> {
  const invited = and(
    eq(eventParticipants.eventId, eventId),
    eq(eventParticipants.userId, userId),
    eq(eventParticipants.status, 'invited'),
  )
  await tx.update(eventParticipants).set({ status: 'declined' }).where(invited)
}

/** Whether there was one, in whatever state. */
export async function deleteParticipation(tx: Tx, eventId: Uuid, userId: Uuid): Promise<boolean> {
  const { rowCount } = await tx
    .delete(eventParticipants)
    .where(and(eq(eventParticipants.eventId, eventId), eq(eventParticipants.userId, userId)))
  return rowCount === 1
}
