import { STREAM } from '../../../lib/contract/events.ts'
import { formatId } from '../../../lib/contract/ids.ts'
import type { EventBus, StoreReady } from '../../../lib/runtime/event-bus/event-bus.ts'
import type { Log } from '../../../lib/runtime/log.ts'
import type { Database } from '../../db/db.ts'
import {
  endLeases,
  findPublished,
  hurryPublication,
  installationOf,
  isNewStream,
  rememberStream,
  repeatPublished,
  timeOf,
} from './queries.ts'

const BATCH = 5000

export interface StreamLossDeps {
  db: Database
  bus: Pick<EventBus, 'onStoreReady'>
  log: Log
}

/**
 * When the stream was lost and made again, or an older copy of it was put back, the relay publishes the events of the last week again, before later ones; the
 * inboxes drop what a consumer has handled. After an outage of the server it does not wait for the retries of events.
 */
export function publishAgainAfterLoss({ db, bus, log }: StreamLossDeps, consumers: readonly string[]): void {
  bus.onStoreReady(async ({ owner, claim, createdAt, wasAway, hasStill, restart }: StoreReady) => {
    await claimOrRefuse({ db, log }, { owner, claim })
    const isNew = await db.inTransaction({}, (tx) => isNewStream(tx, STREAM, createdAt))
    // The latest are repeated last: as long as a process that dies leaves some, the next one finds the same.
    const published = await db.read({}, findPublished)
    const isOlder = !isNew && !(await hasStill(published.map(({ id, seq }) => ({ id: formatId('message', id), seq }))))
    const isLost = isNew || isOlder
    if (isLost || wasAway) await db.inTransaction({}, endLeases)
    // Their positions may be of messages that are gone: what takes those places would never be delivered.
    if (isOlder) await restart(consumers)
    if (isLost) {
      const repeated = await repeatAll(db)
      // Last: a process that dies before leaves the work to the next one, for which repeats are no harm.
      await db.inTransaction({}, (tx) => rememberStream(tx, STREAM, createdAt))
      log.warn(
        { createdAt, isOlder, repeated },
        'the event stream has lost events: those of a week are published again',
      )
    }
    if (wasAway) await db.inTransaction({}, hurryPublication)
    // What waits here was claimed when earlier events of its aggregate counted as published.
    return isLost || wasAway
  })
}

/**
 * The consumers of two installations would take each other's events: they have the same names, and each database gives turns of
 * its own. A stream of an earlier version belongs to the first that claims it.
 */
async function claimOrRefuse(
  { db, log }: Pick<StreamLossDeps, 'db' | 'log'>,
  { owner, claim }: Pick<StoreReady, 'owner' | 'claim'>,
): Promise<void> {
  const installation = await db.read({}, installationOf)
  if (owner === installation) return
  if (owner === undefined) return claim(installation)
  log.error(
    { owner, installation },
    'another installation uses the event stream: give each a NATS server, or an account, of its own',
  )
  throw new Error('The event stream belongs to another installation')
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
