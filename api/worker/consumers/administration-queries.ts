import { parseId, type Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { parkedEvents } from '../../db/schema/consumers.ts'
import { findParked, type ListedMessage } from './queries.ts'

/** The latest messages that could not be handled, without those that only wait behind one. */
export function listFailed(tx: Tx, o: { consumer: string | undefined; limit: number }): Promise<ListedMessage[]> {
  const ofConsumer = o.consumer === undefined ? sql`true` : sql`consumer = ${o.consumer}`
  return findParked(
    tx,
    sql`parked.position in (select position from ${parkedEvents}
      where ${ofConsumer} and reason is not null order by position desc limit ${o.limit})`,
  )
}

/** What each consumer has parked of the message. */
export const findParkedMessage = (tx: Tx, messageId: Uuid): Promise<ListedMessage[]> =>
  findParked(tx, sql`parked.message_id = ${messageId}`)

export interface Requested {
  consumer: string
  messageId: Uuid
  /** Null where the message is not an event of ours. */
  orgId: Uuid | null
}

/**
 * Asks for another attempt at up to `limit` messages that were last tried before `before`. Skips those for which it has
 * been asked already.
 */
export async function requestReplays(
  tx: Tx,
  o: { consumer?: string; messageId?: Uuid; before: string; limit: number },
): Promise<Requested[]> {
  const ofConsumer = o.consumer === undefined ? sql`true` : sql`consumer = ${o.consumer}`
  const ofMessage = o.messageId === undefined ? sql`true` : sql`message_id = ${o.messageId}`
  const { rows } = await tx.execute<{ consumer: string; messageId: Uuid; org: string | null }>(sql`
    update ${parkedEvents} set replay_at = now()
    where (replay_at is null or replay_at > now()) and (consumer, message_id) in (
      select consumer, message_id from ${parkedEvents}
      where ${ofConsumer} and ${ofMessage} and reason is not null and (replay_at is null or replay_at > now()) and last_at < ${o.before}::timestamptz
      order by position limit ${o.limit})
    returning consumer, message_id as "messageId", event->>'org_id' as org`)
  return rows.map(({ consumer, messageId, org }) => ({
    consumer,
    messageId,
    orgId: parseId('organization', org ?? '') ?? null,
  }))
}

/** Wakes the workers, of which one handles the events of the consumer. */
export async function wakeReplay(tx: Tx): Promise<void> {
  await tx.execute(sql`select pg_notify('dead_letters', '')`)
}

/** What is still parked of these messages; `isRequested` until the attempt has been made. */
export async function stillParked(
  tx: Tx,
  requested: readonly Requested[],
): Promise<{ messageId: Uuid; consumer: string; reason: string | null; isRequested: boolean }[]> {
  const consumers = sql.param(requested.map(({ consumer }) => consumer))
  const ids = sql.param(requested.map(({ messageId }) => messageId))
  const { rows } = await tx.execute<{
    messageId: Uuid
    consumer: string
    reason: string | null
    isRequested: boolean
  }>(sql`
    select parked.message_id as "messageId", parked.consumer, parked.reason, coalesce(parked.replay_at <= now(), false) as "isRequested"
    from ${parkedEvents} as parked
    join unnest(${consumers}::text[], ${ids}::uuid[]) as asked (consumer, message_id) using (consumer, message_id)
    order by parked.position`)
  return rows
}
