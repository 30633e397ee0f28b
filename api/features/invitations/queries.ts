import {
  and,
  asc,
  desc,
  eq,
  getTableColumns,
  inArray,
  isNotNull,
  isNull,
  notInArray,
  or,
  type Placeholder,
  type SQL,
  sql,
} from 'drizzle-orm'
import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { prepared } from '../../db/prepared.ts'
import { type EventRow, eventParticipants, events, type ParticipantStatus } from '../../db/schema/events.ts'
import { type InvitationRow, invitations } from '../../db/schema/invitations.ts'
import { memberships } from '../../db/schema/organizations.ts'
import { users } from '../../db/schema/users.ts'
import type { PageWanted } from '../../requests/page.ts'
import { findEvent } from '../events/queries.ts'

/** Whole seconds, as the token says them. */
const IN_ONE_HOUR = sql`date_trunc('second', now()) + interval '1 hour'`
const isExpired = sql<boolean>`${invitations.tokenExpiresAt} <= now()`

/** The verified e-mail address of a user, in lower case. */
const emailOf = (userId: SQL | Placeholder) =>
  sql<string | null>`(select lower(caller.email) from users caller where caller.id = ${userId})`

export type FoundInvitation = InvitationRow & {
  /** Owner of the event. */
  ownerId: Uuid
  isExpired: boolean
  /** Verified e-mail address of the user of the request, in lower case. */
  callerEmail: string | null
}

const org = sql.placeholder('org')
const oneInvitation = sql.placeholder('id')

/** An invitation as one user finds it. Lock the event first: see `lockEventOf`. */
export async function findInvitation(
  tx: Tx,
  { orgId, id, userId, lock = false }: { orgId: Uuid; id: Uuid; userId: Uuid; lock?: boolean },
): Promise<FoundInvitation | undefined> {
  const query = prepared(tx, lock ? 'lock_invitation' : 'find_invitation', (name) => {
    const found = tx
      .select({
        ...getTableColumns(invitations),
        ownerId: events.ownerId,
        isExpired,
        callerEmail: emailOf(sql.placeholder('user')),
      })
      .from(invitations)
      .innerJoin(events, eq(events.id, invitations.eventId))
      .where(and(eq(invitations.orgId, org), eq(invitations.id, oneInvitation)))
    return (lock ? found.for('update', { of: invitations }) : found).prepare(name)
  })
  const [row] = await query.execute({ org: orgId, id, user: userId })
  return row
}

/** The event of an invitation, locked `for share`: before the invitation, in the order that `findEvent` describes. */
export async function lockEventOf(tx: Tx, orgId: Uuid, id: Uuid): Promise<EventRow | undefined> {
  const query = prepared(tx, 'find_event_of_invitation', (name) =>
    tx
      .select({ eventId: invitations.eventId })
      .from(invitations)
      .where(and(eq(invitations.orgId, org), eq(invitations.id, oneInvitation)))
      .prepare(name),
  )
  const [row] = await query.execute({ org: orgId, id })
  return row && findEvent(tx, orgId, row.eventId, { lock: 'share' })
}

/** The invitation and its organization. The only look-up that works outside of an organization. */
export async function findBySlug(tx: Tx, slug: string): Promise<{ id: Uuid; orgId: Uuid } | undefined> {
  const query = prepared(tx, 'find_invitation_of_slug', (name) => {
    const ofSlug = sql`invitation_of_slug(${sql.placeholder('slug')}) as id`
    const orgId = sql<Uuid | null>`organization_of_invitations(id)`
    return tx.select({ id: sql<Uuid | null>`id`, orgId }).from(ofSlug).prepare(name)
  })
  const [found] = await query.execute({ slug })
  return found?.id && found.orgId ? { id: found.id, orgId: found.orgId } : undefined
}

/** What those with the slug may see, some of it by the token alone; undefined while the event is a draft. */
export async function findShown(tx: Tx, orgId: Uuid, id: Uuid) {
  const query = prepared(tx, 'find_shown_invitation', (name) =>
    tx
      .select({
        id: invitations.id,
        title: events.title,
        hostName: users.displayName,
        message: invitations.message,
        generation: invitations.generation,
        tokenExpiresAt: invitations.tokenExpiresAt,
        isExpired,
      })
      .from(invitations)
      .innerJoin(events, eq(events.id, invitations.eventId))
      // Strangers see this: not even the members see the name of an owner who has left.
      .leftJoin(memberships, and(eq(memberships.orgId, events.orgId), eq(memberships.userId, events.ownerId)))
      .leftJoin(users, eq(users.id, memberships.userId))
      .where(
        and(
          eq(invitations.orgId, org),
          eq(invitations.id, oneInvitation),
          sql`${invitations.status} <> 'revoked' and ${events.status} <> 'draft'`,
        ),
      )
      .prepare(name),
  )
  const [row] = await query.execute({ org: orgId, id })
  return row
}

/** What a QR code is made of; undefined unless this generation of the invitation can still be used. */
export async function findLive(tx: Tx, orgId: Uuid, id: Uuid, generation: number) {
  const [row] = await tx
    .select({ slug: invitations.slug, tokenExpiresAt: invitations.tokenExpiresAt })
    .from(invitations)
    .where(
      and(
        eq(invitations.orgId, orgId),
        eq(invitations.id, id),
        eq(invitations.generation, generation),
        eq(invitations.status, 'pending'),
        sql`not ${isExpired}`,
      ),
    )
  return row
}

export type ListedInvitation = Awaited<ReturnType<typeof listInvitations>>[number]

/** Newest first. */
export async function listInvitations(tx: Tx, o: { orgId: Uuid; eventId: Uuid; callerId: Uuid } & PageWanted) {
  const next =
    o.after && sql`(${invitations.createdAt}, ${invitations.id}) < (${o.after.at}::timestamptz, ${o.after.id}::uuid)`
  return tx
    .select({
      ...getTableColumns(invitations),
      isExpired,
      callerEmail: emailOf(sql`${o.callerId}`),
      // The name of a user who belongs to another organization is not for this one.
      displayName: sql<string | null>`case when ${memberships.userId} is not null then ${users.displayName} end`,
      // Text with all six digits, for the cursor.
      createdAt: sql<string>`to_char(${invitations.createdAt} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`,
    })
    .from(invitations)
    .leftJoin(users, eq(users.id, invitations.userId))
    .leftJoin(memberships, and(eq(memberships.orgId, o.orgId), eq(memberships.userId, invitations.userId)))
    .where(and(eq(invitations.orgId, o.orgId), eq(invitations.eventId, o.eventId), next))
    .orderBy(desc(invitations.createdAt), desc(invitations.id))
    .limit(o.limit)
}

export type NewInvitation = Pick<
  InvitationRow,
  'orgId' | 'eventId' | 'slug' | 'email' | 'phoneNumber' | 'userId' | 'message' | 'invitedBy'
>

/** Undefined when the slug is taken, or when the same invitee has a pending invitation to the event. */
export async function insertInvitation(tx: Tx, row: NewInvitation): Promise<InvitationRow | undefined> {
  const [made] = await tx
    .insert(invitations)
    .values({ ...row, id: newUuid(), tokenExpiresAt: IN_ONE_HOUR })
    .onConflictDoNothing()
    .returning()
  return made
}

export async function hasPending(
  tx: Tx,
  { eventId, email, phoneNumber, userId }: Pick<NewInvitation, 'eventId' | 'email' | 'phoneNumber' | 'userId'>,
): Promise<boolean> {
  const to = email ? eq(invitations.email, email) : phoneNumber ? eq(invitations.phoneNumber, phoneNumber) : undefined
  const invitee = to ?? eq(invitations.userId, userId ?? '')
  return (
    (await tx.$count(invitations, and(eq(invitations.eventId, eventId), eq(invitations.status, 'pending'), invitee))) >
    0
  )
}

/** Whether the invitee is known to be a member, by user id or verified e-mail address. Phone numbers are not known. */
export async function isMember(
  tx: Tx,
  orgId: Uuid,
  { userId, email }: Pick<NewInvitation, 'userId' | 'email'>,
): Promise<boolean> {
  const addressed = userId !== null ? eq(users.id, userId) : email !== null && eq(sql`lower(${users.email})`, email)
  if (!addressed) return false
  const [row] = await tx
    .select({ id: users.id })
    .from(memberships)
    .innerJoin(users, eq(users.id, memberships.userId))
    .where(and(eq(memberships.orgId, orgId), addressed))
    .limit(1)
  return row !== undefined
}

const changed = { version: sql`${invitations.version} + 1`, updatedAt: sql`now()` }

/** Another generation: every token of an earlier one is invalid from the commit on. */
export async function renewInvitation(
  tx: Tx,
  id: Uuid,
  { invitedBy, isTold }: { invitedBy: Uuid; isTold: boolean },
): Promise<InvitationRow> {
  const generation = sql`${invitations.generation} + 1`
  const [row] = await tx
    .update(invitations)
    .set({
      ...changed,
      generation,
      tokenExpiresAt: IN_ONE_HOUR,
      invitedBy,
      ...(isTold && { toldGeneration: generation }),
    })
    .where(eq(invitations.id, id))
    .returning()
  return required(row)
}

export async function answerInvitation(
  tx: Tx,
  id: Uuid,
  answer: Pick<InvitationRow, 'responseMessage'> & { status: 'accepted' | 'declined'; respondedBy: Uuid },
): Promise<InvitationRow & { respondedAt: Date }> {
  const query = prepared(tx, 'answer_invitation', (name) =>
    tx
      .update(invitations)
      .set({
        ...changed,
        status: sql`${sql.placeholder('status')}`,
        respondedBy: sql`${sql.placeholder('respondedBy')}`,
        responseMessage: sql`${sql.placeholder('responseMessage')}`,
        respondedAt: sql`now()`,
      })
      .where(eq(invitations.id, oneInvitation))
      .returning()
      .prepare(name),
  )
  const [row] = await query.execute({ ...answer, id })
  const { respondedAt, ...rest } = required(row)
  return { ...rest, respondedAt: required(respondedAt) }
}

/**
 * Returns the pending invitations of the event whose invitees have not been told, and makes a new token for those whose
 * token has expired. Two transactions never get the same invitation.
 */
export async function takeUntold(tx: Tx, eventId: Uuid): Promise<InvitationRow[]> {
  const untold = and(
    eq(invitations.eventId, eventId),
    eq(invitations.status, 'pending'),
    isNull(invitations.toldGeneration),
  )
  const ids = await lockPending(tx, untold)
  const generation = sql`${invitations.generation} + (${isExpired})::int`
  return tx
    .update(invitations)
    .set({
      ...changed,
      generation,
      toldGeneration: generation,
      tokenExpiresAt: sql`case when ${isExpired} then ${IN_ONE_HOUR} else ${invitations.tokenExpiresAt} end`,
    })
    .where(inArray(invitations.id, ids))
    .returning()
}

/** In order of id, so that two transactions that lock several invitations do not wait for each other. */
async function lockPending(tx: Tx, which: SQL | undefined): Promise<Uuid[]> {
  const rows = await tx
    .select({ id: invitations.id })
    .from(invitations)
    .where(which)
    .orderBy(asc(invitations.id))
    .for('update')
  return rows.map(({ id }) => id)
}

/**
 * Locks the pending invitations that this user could answer without a token, by user id or e-mail address. Call it before
 * the membership is locked: an acceptance holds its invitation when it asks for the membership.
 */
export async function lockInvitationsOf(tx: Tx, orgId: Uuid, userId: Uuid): Promise<Uuid[]> {
  const email = sql`(select lower(email) from users where users.id = ${userId})`
  const addressed = or(eq(invitations.userId, userId), eq(invitations.email, email))
  return lockPending(tx, and(eq(invitations.orgId, orgId), eq(invitations.status, 'pending'), addressed))
}

/** Call with the invitations locked. Another generation, so that the links that were sent are invalid as well. */
export async function revokeInvitations(tx: Tx, ids: Uuid[]): Promise<void> {
  if (ids.length === 0) return
  await tx
    .update(invitations)
    .set({ ...changed, status: 'revoked', generation: sql`${invitations.generation} + 1` })
    .where(inArray(invitations.id, ids))
}

/**
 * Returns the addresses of the event's other invitations whose invitees the caller need not tell again: they were told and
 * can still respond, or have accepted. An invitee who has declined, or whose link has expired, is told again.
 */
export async function listTold(tx: Tx, eventId: Uuid, except: Uuid[]) {
  return tx
    .select({ userId: invitations.userId, email: invitations.email })
    .from(invitations)
    .where(
      and(
        eq(invitations.eventId, eventId),
        isNotNull(invitations.toldGeneration),
        notInArray(invitations.id, except),
        or(eq(invitations.status, 'accepted'), and(eq(invitations.status, 'pending'), sql`not ${isExpired}`)),
      ),
    )
}

export async function findEmails(tx: Tx, userIds: Uuid[]): Promise<Map<Uuid, string>> {
  if (userIds.length === 0) return new Map()
  const rows = await tx
    .select({ id: users.id, email: sql<string>`lower(${users.email})` })
    .from(users)
    .where(and(inArray(users.id, userIds), isNotNull(users.email)))
  return new Map(rows.map(({ id, email }) => [id, email]))
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
  const query = prepared(tx, `mark_${status}`, (name) => {
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
      .prepare(name)
  })
  await query.execute({ ...who })
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

/** A row that the transaction has locked cannot be missing. */
function required<T>(row: T | undefined | null): T {
  if (row !== undefined && row !== null) return row
  throw new Error('a locked row vanished')
}
