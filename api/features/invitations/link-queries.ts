import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, eq, sql } from '../../db/orm.ts'
import { prepared } from '../../db/prepared.ts'
import { events } from '../../db/schema/events.ts'
import { invitations } from '../../db/schema/invitations.ts'
import { memberships, organizations } from '../../db/schema/organizations.ts'
import { users } from '../../db/schema/users.ts'
import { isExpired, isInvitee } from './queries.ts'

/** The invitation and its organization. The only look-up that works outside of an organization. */
export async function findBySlug(tx: Tx, slug: string): Promise<{ id: Uuid; orgId: Uuid } | undefined> {
  const [found] = await prepared(tx, 'find_invitation_of_slug', { slug }, () => {
    const ofSlug = sql`invitation_of_slug(${sql.placeholder('slug')}) as id`
    const orgId = sql<Uuid | null>`organization_of_invitations(id)`
    return tx.select({ id: sql<Uuid | null>`id`, orgId }).from(ofSlug)
  })
  return found?.id && found.orgId ? { id: found.id, orgId: found.orgId } : undefined
}

/** What those with the slug may see, most of it by the token or as the invitee alone; undefined while the event is a draft. */
export async function findShownInvitation(tx: Tx, o: { orgId: Uuid; id: Uuid; userId: Uuid | null }) {
  const values = { org: o.orgId, id: o.id, user: o.userId }
  const [row] = await prepared(tx, 'find_shown_invitation', values, () =>
    tx
      .select({
        id: invitations.id,
        title: events.title,
        startsAt: events.startAt,
        endsAt: events.endAt,
        place: events.locationName,
        hostName: users.displayName,
        organizationName: organizations.name,
        message: invitations.message,
        generation: invitations.generation,
        tokenExpiresAt: invitations.tokenExpiresAt,
        isExpired,
        isInvitee: isInvitee(sql`${sql.placeholder('user')}::uuid`),
      })
      .from(invitations)
      .innerJoin(events, eq(events.id, invitations.eventId))
      .innerJoin(organizations, eq(organizations.id, invitations.orgId))
      // Strangers see this: not even the members see the name of an owner who has left.
      .leftJoin(memberships, and(eq(memberships.orgId, events.orgId), eq(memberships.userId, events.ownerId)))
      .leftJoin(users, eq(users.id, memberships.userId))
      .where(
        and(
          eq(invitations.orgId, sql.placeholder('org')),
          eq(invitations.id, sql.placeholder('id')),
          sql`${invitations.status} <> 'revoked' and ${events.status} <> 'draft'`,
        ),
      ),
  )
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
