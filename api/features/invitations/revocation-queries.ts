import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, eq, inArray, or, sql } from '../../db/orm.ts'
import { invitations } from '../../db/schema/invitations.ts'
import { changed, lockPending } from './queries.ts'

/**
 * Locks the pending invitations, of one event or of all, that this user could answer without a token, by user id, verified e-mail address or verified
 * phone number, as `isInvitee` does. Call it before the membership is locked: an acceptance holds its invitation when it asks for the membership.
 */
export async function lockInvitationsOf(tx: Tx, orgId: Uuid, userId: Uuid, eventId?: Uuid): Promise<Uuid[]> {
  const email = sql`(select lower(email) from users where users.id = ${userId})`
  const phone = sql`(select phone_number from users where users.id = ${userId})`
  const addressed = or(eq(invitations.userId, userId), eq(invitations.email, email), eq(invitations.phoneNumber, phone))
  const ofEvent = eventId === undefined ? undefined : eq(invitations.eventId, eventId)
  return lockPending(tx, and(eq(invitations.orgId, orgId), eq(invitations.status, 'pending'), addressed, ofEvent))
}

/** Call with the invitations locked. Another generation, so that the links that were sent are invalid as well. */
export async function revokeInvitations(tx: Tx, ids: Uuid[]): Promise<void> {
  if (ids.length === 0) return
  await tx
    .update(invitations)
    .set({ ...changed, status: 'revoked', generation: sql`${invitations.generation} + 1` })
    .where(inArray(invitations.id, ids))
}
