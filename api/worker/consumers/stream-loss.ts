import { STREAM } from '../../../lib/contract/events.ts'
import type { EventBus, StoreReady } from '../../../lib/runtime/event-bus/event-bus.ts'
import type { Log } from '../../../lib/runtime/log.ts'
import type { Database } from '../../db/db.ts'
import { endLeases, hurryPublication, isNewStream, rememberStream, repeatPublished, timeOf } from './queries.ts'

const BATCH = 5000

export interface StreamLossDeps {
  db: Database
  bus: Pick<EventBus, 'onStoreReady'>
  log: Log
}

/**
 * When the stream was lost and made again, the relay publishes the events of the last week again, before later ones; the
 * inboxes drop what a consumer has handled. After an outage of the server it does not wait for the retries of events.
 */
export function publishAgainAfterLoss({ db, bus, log }: StreamLossDeps): void {
  bus.onStoreReady(async ({ createdAt, wasAway }: StoreReady) => {
    const isNew = await db.inTransaction({}, (tx) => isNewStream(tx, STREAM, createdAt))
    if (isNew || wasAway) await db.inTransaction({}, endLeases)
    if (isNew) {
      const repeated = await repeatAll(db)
      // Last: a process that dies before leaves the work to the next one, for which repeats are no harm.
      await db.inTransaction({}, (tx) => rememberStream(tx, STREAM, createdAt))
      log.warn({ createdAt, repeated }, 'the event stream was made anew: published events are published again')
    }
    if (wasAway) await db.inTransaction({}, hurryPublication)
    // What waits here was claimed when earlier events of its aggregate counted as published.
    return isNew || wasAway
  })
}

/** Short transactions: a week may have a million events. */
async function repeatAll(db: Database): Promise<number> {
  const before = await db.read({}, timeOf)
  let repeated = 0
  while (true) {
    const some = await db.inTransaction({}, (tx) => repeatPublished(tx, before, BATCH))
    repeated += some
    if (some < BATCH) return repeated
  }
}
