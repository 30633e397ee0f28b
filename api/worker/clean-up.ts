import { setTimeout as sleep } from 'node:timers/promises'
import { deleteOldNotices } from '../auth/notice-queries.ts'
import { deleteOldRefreshTokens, forgetAnswers } from '../auth/refresh-queries.ts'
import { deleteOldRevocations } from '../auth/revocation-queries.ts'
import { deleteOldSessions, forgetLapsedDetails } from '../auth/session-queries.ts'
import type { Database, Tx } from '../db/db.ts'
import { deleteOldIdempotencyKeys } from '../http/idempotency-queries.ts'
import { deleteOldInbox, deleteOldParked, deleteOldSuspected } from './consumers/queries.ts'
import { deleteOldEvents } from './queries.ts'

const BATCH = 1000
const PAUSE_MS = 50

/** Removes what has expired: published and received events, parked ones, idempotency keys and what is kept of sign-ins. */
export async function cleanUp(db: Database, signal: AbortSignal): Promise<void> {
  await deleteInBatches(db, (tx) => deleteOldEvents(tx, BATCH), signal)
  await deleteInBatches(db, (tx) => deleteOldIdempotencyKeys(tx, BATCH), signal)
  await deleteInBatches(db, (tx) => deleteOldSessions(tx, BATCH), signal)
  await deleteInBatches(db, (tx) => forgetLapsedDetails(tx, BATCH), signal)
  await deleteInBatches(db, (tx) => deleteOldRefreshTokens(tx, BATCH), signal)
  await deleteInBatches(db, (tx) => forgetAnswers(tx, BATCH), signal)
  await deleteInBatches(db, (tx) => deleteOldRevocations(tx, BATCH), signal)
  await deleteInBatches(db, (tx) => deleteOldNotices(tx, BATCH), signal)
  await deleteInBatches(db, (tx) => deleteOldInbox(tx, BATCH), signal)
  await deleteInBatches(db, (tx) => deleteOldParked(tx, BATCH), signal)
  await deleteInBatches(db, (tx) => deleteOldSuspected(tx, BATCH), signal)
}

/** Short transactions with pauses in between, so that they hold up neither vacuum nor other transactions. */
async function deleteInBatches(db: Database, work: (tx: Tx) => Promise<number>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted && (await db.inTransaction({}, work)) === BATCH) await sleep(PAUSE_MS)
}
