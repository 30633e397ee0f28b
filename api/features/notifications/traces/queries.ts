import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import { and, eq, sql } from '../../../db/orm.ts'
import { invitations } from '../../../db/schema/invitations.ts'
import { notificationDeliveries, notifications } from '../../../db/schema/notifications.ts'

/** Proxies and scanners repeat their requests without end. */
const MAX_RECORDED = 20

/** The invitation that a notification tells of, by its slug, and how long ago its mail was sent; undefined for any other. */
export async function findTold(tx: Tx, orgId: Uuid, id: Uuid) {
  const sentAt = sql`(select max(${notificationDeliveries.startedAt}) from ${notificationDeliveries}
    where ${notificationDeliveries.notificationId} = ${notifications.id}
      and ${notificationDeliveries.channel} = 'email')`
  const [row] = await tx
    .select({
      invitationId: invitations.id,
      slug: invitations.slug,
      seconds: sql<number | null>`extract(epoch from now() - ${sentAt})::float8`,
      isFull: sql<boolean>`${notifications.recorded} >= ${MAX_RECORDED}`,
      isSeen: {
        open: sql<boolean>`${notifications.openedAt} is not null and ${invitations.openedAt} is not null`,
        click: sql<boolean>`${notifications.clickedAt} is not null and ${invitations.clickedAt} is not null`,
      },
    })
    .from(notifications)
    .innerJoin(invitations, eq(invitations.id, notifications.invitationId))
    .where(and(eq(notifications.orgId, orgId), eq(notifications.id, id)))
  return row
}

/** Counts one more record of the notification. False when it has all it may have. */
export async function takeRecord(tx: Tx, id: Uuid): Promise<boolean> {
  const { rowCount } = await tx
    .update(notifications)
    .set({ recorded: sql`${notifications.recorded} + 1` })
    .where(and(eq(notifications.id, id), sql`${notifications.recorded} < ${MAX_RECORDED}`))
  return rowCount === 1
}

/** The first time stays. The invitation before the notification, as a sender that renews a link locks them. */
export async function markSeen(
  tx: Tx,
  { id, invitationId, agoSeconds }: { id: Uuid; invitationId: Uuid; agoSeconds: number },
  what: 'open' | 'click',
): Promise<void> {
  const then = sql`now() - make_interval(secs => ${agoSeconds}::float8)`
  const at = what === 'open' ? 'openedAt' : 'clickedAt'
  await tx
    .update(invitations)
    .set({ [at]: sql`coalesce(${invitations[at]}, ${then})` })
    .where(eq(invitations.id, invitationId))
  await tx
    .update(notifications)
    .set({ [at]: sql`coalesce(${notifications[at]}, ${then})` })
    .where(eq(notifications.id, id))
}
