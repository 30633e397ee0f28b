import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, eq, inArray, isNotNull, isNull, notInArray, or, sql } from '../../db/orm.ts'
import { type InvitationRow, invitations } from '../../db/schema/invitations.ts'
import { users } from '../../db/schema/users.ts'
import { changed, IN_ONE_HOUR, isExpired, lockPending } from './queries.ts'

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
