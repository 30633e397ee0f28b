import { and, eq } from 'drizzle-orm'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { type EventRow, events } from '../db/schema/events.ts'

/**
 * An event in whatever state. The lock order is event, invitation, participant: a transaction that changes what belongs
 * to an event locks the event `for share` first, and one that changes the event itself `for update`. So an archive waits
 * for changes in progress, and those that come after it see it.
 */
export async function findEvent(
  tx: Tx,
  orgId: Uuid,
  id: Uuid,
  { lock }: { lock?: 'share' | 'update' } = {},
): Promise<EventRow | undefined> {
  const query = tx
    .select()
    .from(events)
    .where(and(eq(events.orgId, orgId), eq(events.id, id)))
  const [row] = await (lock ? query.for(lock) : query)
  return row
}
