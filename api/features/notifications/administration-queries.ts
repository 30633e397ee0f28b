import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, desc, eq, getTableColumns, inArray, sql } from '../../db/orm.ts'
import {
  DELIVERY_STATES,
  type DeliveryState,
  notificationDeliveries,
  notifications,
} from '../../db/schema/notifications.ts'

export const isListable = (state: string): state is DeliveryState => DELIVERY_STATES.some((one) => one === state)

export type ListedDelivery = Awaited<ReturnType<typeof listDeliveries>>[number]

/** Latest first. */
export const listDeliveries = (
  tx: Tx,
  o: { state?: DeliveryState | undefined; notificationId?: Uuid | undefined; limit: number },
) =>
  tx
    .select({
      ...getTableColumns(notificationDeliveries),
      template: notifications.template,
      userId: notifications.userId,
      email: notifications.email,
      phoneNumber: notifications.phoneNumber,
    })
    .from(notificationDeliveries)
    .innerJoin(notifications, eq(notifications.id, notificationDeliveries.notificationId))
    .where(
      and(
        o.state && eq(notificationDeliveries.state, o.state),
        o.notificationId && eq(notifications.id, o.notificationId),
      ),
    )
    .orderBy(desc(notificationDeliveries.updatedAt), desc(notificationDeliveries.id))
    .limit(o.limit)

/** Makes the deliveries of a notification that have ended without success due again. Returns how many. */
export async function retryDeliveries(tx: Tx, notificationId: Uuid): Promise<number> {
  const d = notificationDeliveries
  const { rowCount } = await tx
    .update(d)
    .set({
      state: 'pending',
      attempts: 0,
      mayHaveArrived: false,
      nextAttemptAt: sql`now()`,
      // The time to give it up begins anew.
      createdAt: sql`now()`,
      updatedAt: sql`now()`,
    })
    .where(and(eq(d.notificationId, notificationId), inArray(d.state, ['failed', 'uncertain', 'suppressed'])))
  await tx.execute(sql`select pg_notify('notifications', '')`)
  return rowCount ?? 0
}
