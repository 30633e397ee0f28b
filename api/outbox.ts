import { EVENTS, type EventPayload, type EventType } from '../lib/contract/events.ts'
import { newUuid, type Uuid } from '../lib/contract/ids.ts'
import type { Tx } from './db/db.ts'
import { outbox } from './db/schema/outbox.ts'

export interface NewEvent<T extends EventType> {
  orgId: Uuid
  aggregateId: Uuid
  /** The aggregate's `version` after the change: consumers drop what is older than what they know. */
  aggregateVersion: number
  type: T
  payload: EventPayload<T>
  traceparent: string | null
}

/** Announces a change in its own transaction; the relay publishes it once that has committed. */
export async function appendEvent<T extends EventType>(tx: Tx, event: NewEvent<T>): Promise<Uuid> {
  const id = newUuid()
  // Checked here, where the mistake is made, and not in the relay, which could only choke on it.
  const { area, payload } = EVENTS[event.type]
  await tx.insert(outbox).values({ ...event, id, area, payload: payload.parse(event.payload) })
  return id
}
