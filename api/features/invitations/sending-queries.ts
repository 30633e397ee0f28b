import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { alias, and, eq, sql } from '../../db/orm.ts'
import { events } from '../../db/schema/events.ts'
import { type InvitationRow, invitations } from '../../db/schema/invitations.ts'
import { memberships } from '../../db/schema/organizations.ts'
import { users } from '../../db/schema/users.ts'
import { changed, IN_ONE_HOUR } from './queries.ts'

/** A pending invitation of this generation to an active event, as a message tells of it. */
export async function findToSend(tx: Tx, o: { orgId: Uuid; id: Uuid; generation: number; lastsSeconds: number }) {
  const [host, inviter] = [alias(users, 'host'), alias(users, 'inviter')]
  const [hosting, inviting] = [alias(memberships, 'hosting'), alias(memberships, 'inviting')]
  const [row] = await tx
    .select({
      id: invitations.id,
      slug: invitations.slug,
      generation: invitations.generation,
      tokenExpiresAt: invitations.tokenExpiresAt,
      message: invitations.message,
      eventId: events.id,
      invitedBy: invitations.invitedBy,
      userId: invitations.userId,
      email: invitations.email,
      phoneNumber: invitations.phoneNumber,
      title: events.title,
      startsAt: events.startAt,
      place: events.locationName,
      // Not even the members see the names of those who have left.
      hostName: host.displayName,
      inviterName: inviter.displayName,
      lasts: sql<boolean>`${invitations.tokenExpiresAt} > now() + make_interval(secs => ${o.lastsSeconds})`,
    })
    .from(invitations)
    .innerJoin(events, eq(events.id, invitations.eventId))
    .leftJoin(hosting, and(eq(hosting.orgId, events.orgId), eq(hosting.userId, events.ownerId)))
    .leftJoin(host, eq(host.id, hosting.userId))
    .leftJoin(inviting, and(eq(inviting.orgId, events.orgId), eq(inviting.userId, invitations.invitedBy)))
    .leftJoin(inviter, eq(inviter.id, inviting.userId))
    .where(
      and(
        eq(invitations.orgId, o.orgId),
        eq(invitations.id, o.id),
        eq(invitations.generation, o.generation),
        eq(invitations.status, 'pending'),
        eq(events.status, 'active'),
      ),
    )
  return row
}

/** Another token for the same invitee, by the same inviter. Call with the invitation locked. */
export async function renewToken(tx: Tx, id: Uuid): Promise<Pick<InvitationRow, 'generation' | 'tokenExpiresAt'>> {
  const generation = sql`${invitations.generation} + 1`
  const [row] = await tx
    .update(invitations)
    .set({ ...changed, generation, toldGeneration: generation, tokenExpiresAt: IN_ONE_HOUR })
    .where(eq(invitations.id, id))
    .returning({ generation: invitations.generation, tokenExpiresAt: invitations.tokenExpiresAt })
  if (!row) throw new Error('a locked invitation vanished')
  return row
}

/** Whether the invitation, locked from now on, is pending with this generation. */
export async function lockGeneration(tx: Tx, o: { orgId: Uuid; id: Uuid; generation: number }): Promise<boolean> {
  const rows = await tx
    .select({ id: invitations.id })
    .from(invitations)
    .where(
      and(
        eq(invitations.orgId, o.orgId),
        eq(invitations.id, o.id),
        eq(invitations.generation, o.generation),
        eq(invitations.status, 'pending'),
      ),
    )
    .for('update')
  return rows.length > 0
}
