import { EVENTS, type EventPayload, type EventType } from '../../lib/contract/events.ts'
import { newUuid, type Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { sql } from '../db/orm.ts'
import { prepared } from '../db/prepared.ts'
import { outbox } from '../db/schema/outbox.ts'

export interface NewEvent<T extends EventType> {
  orgId: Uuid
  aggregateId: Uuid
  /** The aggregate's `version` after the change: consumers drop an event with an older version than theirs. */
  aggregateVersion: number
  type: T
  payload: EventPayload<T>
  traceparent: string | null
}

/** Appends an event in the transaction of its change; the relay publishes it after the commit. */
export async function appendEvent<T extends EventType>(tx: Tx, event: NewEvent<T>): Promise<Uuid> {
  const id = newUuid()
  // An invalid payload fails the change here; the relay could not publish it.
  const { area, payload } = EVENTS[event.type]
  await prepared(tx, 'append_event', { ...event, id, area, payload: payload.parse(event.payload) }, () =>
    tx.insert(outbox).values(PLACEHOLDERS),
  )
  return id
}

const PLACEHOLDERS = {
  id: sql.placeholder('id'),
  orgId: sql.placeholder('orgId'),
  area: sql.placeholder('area'),
  aggregateId: sql.placeholder('aggregateId'),
  aggregateVersion: sql.placeholder('aggregateVersion'),
  type: sql.placeholder('type'),
  payload: sql.placeholder('payload'),
  traceparent: sql.placeholder('traceparent'),
}
