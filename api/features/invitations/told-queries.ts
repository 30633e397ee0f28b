import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, eq, gt, inArray, isNotNull, isNull, notInArray, or, sql } from '../../db/orm.ts'
import { type InvitationRow, invitations } from '../../db/schema/invitations.ts'
import { users } from '../../db/schema/users.ts'
import { isParticipant } from '../events/queries.ts'
import type { Address } from './plan.ts'
import { changed, IN_ONE_HOUR, isExpired, lockPending } from './queries.ts'

/**
 * One transaction of an event at a time, until it ends: of two that share the lock of the event, neither sees the invitation
 * of the other. Take it when the own invitation is inserted: a transaction that waits for it holds nothing that its holder
 * still needs.
 */
export async function queueToTell(tx: Tx, eventId: Uuid): Promise<void> {
  await tx.execute(sql`select pg_advisory_xact_lock(hashtextextended('tell ' || ${eventId}::text, 0))`)
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

/** In `told_generation`: another invitation tells the invitee. Generations begin at 1. */
const LEFT_TO_ANOTHER = 0

/** For invitations that `takeUntold` returned and no event announces: they do not count as told, and no repeat takes them. */
export async function leaveToAnother(tx: Tx, ids: Uuid[]): Promise<void> {
  if (ids.length === 0) return
  await tx.update(invitations).set({ toldGeneration: LEFT_TO_ANOTHER }).where(inArray(invitations.id, ids))
}

/**
 * Returns whom the event's other invitations make another message needless for: the invitees who were told and can still
 * respond, by the address of the invitation, and those who take part, by user id. A link may be used by someone other than
 * its invitee. An invitee who has declined, whose link has expired, or who takes part no more is told again.
 */
export async function listTold(tx: Tx, eventId: Uuid, except: Uuid[]): Promise<Address[]> {
  const canRespond = and(
    eq(invitations.status, 'pending'),
    gt(invitations.toldGeneration, LEFT_TO_ANOTHER),
    sql`not ${isExpired}`,
  )
  const isAccepted = eq(invitations.status, 'accepted')
  const takesPart = isParticipant(sql`invitations.event_id`, sql`invitations.responded_by`)
  return tx
    .select({
      userId: sql<Uuid | null>`case when ${isAccepted} then ${invitations.respondedBy} else ${invitations.userId} end`,
      email: sql<string | null>`case when ${isAccepted} then null else ${invitations.email} end`,
    })
    .from(invitations)
    .where(
      and(
        eq(invitations.eventId, eventId),
        notInArray(invitations.id, except),
        or(canRespond, and(isAccepted, takesPart)),
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
