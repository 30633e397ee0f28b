import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { deleteOldSessions } from '../auth/queries.ts'
import type { Database, Tx } from '../db/db.ts'
import { expireUploads } from '../features/media/uploads/release.ts'
import { deleteOldIdempotencyKeys } from '../http/idempotency-queries.ts'
import { deleteOldEvents } from './queries.ts'

const BATCH = 1000
const PAUSE_MS = 50

/** Removes what has expired: published events, idempotency keys, sign-in sessions and unfinished uploads. */
export async function cleanUp(
  deps: { db: Database; store: ObjectStore; log: Log },
  signal: AbortSignal,
): Promise<void> {
  const { db, store, log } = deps
  await deleteInBatches(db, (tx) => deleteOldEvents(tx, BATCH), signal)
  await deleteInBatches(db, (tx) => deleteOldIdempotencyKeys(tx, BATCH), signal)
  await deleteInBatches(db, (tx) => deleteOldSessions(tx, BATCH), signal)
  if (!signal.aborted) await expireUploads(db, store, { log })
}

/** Short transactions with pauses in between, so that they hold up neither vacuum nor other transactions. */
async function deleteInBatches(db: Database, work: (tx: Tx) => Promise<number>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted && (await db.inTransaction({}, work)) === BATCH) await sleep(PAUSE_MS)
}
