import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { Log } from '../../../lib/runtime/log.ts'
import type { Database, Tx } from '../../db/db.ts'
import { changesOf } from '../../requests/change.ts'
import { FIRST_NOTICE, nextNotice } from './notice-plan.ts'
import { lockDueForNotice, saveNotices, seeBefore } from './notice-queries.ts'

/** More than this between two clocks means that either may be wrong. */
const MAX_SKEW_MS = 3_600_000
const BATCH = 100

interface Deps {
  db: Database
  log: Log
}

/**
 * Tells owners of archived events before they are purged. Tells none while the clocks differ, or while the last run of the
 * policy waits for a confirmation: then it may not be true. The transaction that notes a notice announces it, so that each is
 * given once.
 */
export async function giveNotices({ db, log }: Deps, signal: AbortSignal, batch = BATCH): Promise<number> {
  const { databaseMs, isRefused } = await db.read({}, seeBefore)
  if (Math.abs(databaseMs - Date.now()) > MAX_SKEW_MS) {
    log.warn('the clock of the database differs from that of this process; no one is told of a purge')
    return 0
  }
  if (isRefused) return 0
  let given = 0
  for (let looked = batch; looked === batch && !signal.aborted; ) {
    const some = await db.inTransaction({}, (tx) => giveSome(tx, batch))
    failpoint('event-notice.committed')
    given += some.given
    looked = some.looked
  }
  return given
}

async function giveSome(tx: Tx, limit: number): Promise<{ looked: number; given: number }> {
  const due = await lockDueForNotice(tx, limit)
  const decided = due.map((event) => {
    const { notice, namedMs } = event
    return { event, next: nextNotice({ ...event, told: { notice, namedMs } }) }
  })
  await saveNotices(
    tx,
    decided.map(({ event, next }) => ({ id: event.id, ...next })),
  )
  failpoint('event-notice.saved')
  const told = decided.filter(({ next }) => next.isNew)
  for (const { event, next } of told) {
    const { announce } = changesOf(tx, { orgId: event.orgId, actorId: null, context: null })
    await announce('EventPurgeSoon', event, {
      event_id: event.id,
      org_id: event.orgId,
      notice: next.told.notice === FIRST_NOTICE ? 'first' : 'last',
      purge_at: new Date(next.told.namedMs ?? 0).toISOString(),
    })
  }
  return { looked: due.length, given: told.length }
}
