import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { microseconds } from '../../db/keyset.ts'
import { and, asc, desc, eq, getTableColumns, type Placeholder, type SQL, sql } from '../../db/orm.ts'
import { prepared } from '../../db/prepared.ts'
import type { RowOf } from '../../db/row-of.ts'
import { type EventRow, events } from '../../db/schema/events.ts'
import { type InvitationRow, invitations } from '../../db/schema/invitations.ts'
import { memberships } from '../../db/schema/organizations.ts'
import { users } from '../../db/schema/users.ts'
import type { PageWanted } from '../../requests/page.ts'
import { findEvent } from '../events/queries.ts'

/** Whole seconds, as the token says them. */
export const IN_ONE_HOUR = sql`date_trunc('second', now()) + interval '1 hour'`
export const isExpired = sql<boolean>`${invitations.tokenExpiresAt} <= now()`

/** Whether the user is the invitee: by id, verified e-mail address or verified phone number. */
export const isInvitee = (userId: SQL | Placeholder) =>
  sql<boolean>`exists (select from users caller where caller.id = ${userId} and (caller.id = ${invitations.userId}
    or lower(caller.email) = ${invitations.email} or caller.phone_number = ${invitations.phoneNumber}))`

const org = sql.placeholder('org')
const oneInvitation = sql.placeholder('id')

const found = {
  ...getTableColumns(invitations),
  /** Owner of the event. */
  ownerId: events.ownerId,
  isExpired,
  /** The user of the request. */
  isInvitee: isInvitee(sql.placeholder('user')),
}
export type FoundInvitation = RowOf<typeof found>

/** An invitation as one user finds it. Lock the event first: see `lockEventOf`. */
export async function findInvitation(
  tx: Tx,
  { orgId, id, userId, lock = false }: { orgId: Uuid; id: Uuid; userId: Uuid; lock?: boolean },
): Promise<FoundInvitation | undefined> {
  const name = lock ? 'lock_invitation' : 'find_invitation'
  const values = { org: orgId, id, user: userId }
  const [row] = await prepared(tx, name, values, () => {
    const rows = tx
      .select(found)
      .from(invitations)
      .innerJoin(events, eq(events.id, invitations.eventId))
      .where(and(eq(invitations.orgId, org), eq(invitations.id, oneInvitation)))
    return lock ? rows.for('update', { of: invitations }) : rows
  })
  return row
}

/** The event of an invitation, locked `for share`: before the invitation, in the order that `findEvent` describes. */
export async function lockEventOf(tx: Tx, orgId: Uuid, id: Uuid): Promise<EventRow | undefined> {
  const [row] = await prepared(tx, 'find_event_of_invitation', { org: orgId, id }, () =>
    tx
      .select({ eventId: invitations.eventId })
      .from(invitations)
      .where(and(eq(invitations.orgId, org), eq(invitations.id, oneInvitation))),
  )
  return row && findEvent(tx, orgId, row.eventId, { lock: 'share' })
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
      isInvitee: isInvitee(sql`${o.callerId}`),
      // The name of a user who belongs to another organization is not for this one.
      displayName: sql<string | null>`case when ${memberships.userId} is not null then ${users.displayName} end`,
      createdAt: microseconds(invitations.createdAt),
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

export const changed = { version: sql`${invitations.version} + 1`, updatedAt: sql`now()` }

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
  const [row] = await prepared(tx, 'answer_invitation', { ...answer, id }, () =>
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
      .returning(),
  )
  const { respondedAt, ...rest } = required(row)
  return { ...rest, respondedAt: required(respondedAt) }
}

/** In order of id, so that two transactions that lock several invitations do not wait for each other. */
export async function lockPending(tx: Tx, which: SQL | undefined): Promise<Uuid[]> {
  const rows = await tx
    .select({ id: invitations.id })
    .from(invitations)
    .where(which)
    .orderBy(asc(invitations.id))
    .for('update')
  return rows.map(({ id }) => id)
}

/** A row that the transaction has locked cannot be missing. */
export function required<T>(row: T | undefined | null): T {
  if (row !== undefined && row !== null) return row
  throw new Error('a locked row vanished')
}
