import type { Log } from '../../lib/runtime/log.ts'
import type { Database } from '../db/db.ts'
import { countDaysAhead, makeDays } from './seal-queries.ts'

/** An entry of a day without a partition fails its change, so days are made long before. */
export const DAYS_AHEAD = 14

/** Makes the days ahead that are missing. The worker calls it in every sweep. */
export async function prepareDays(db: Database): Promise<void> {
  const ahead = await db.read({}, countDaysAhead)
  if (ahead < DAYS_AHEAD) await db.inTransaction({}, (tx) => makeDays(tx, DAYS_AHEAD))
}

const CHECK_MS = 3_600_000

/**
 * The same in the API, at its start and every hour: it must serve even where no worker has run for weeks. Returns what ends
 * it, once the days were looked at.
 */
export async function watchDays(db: Database, log: Log, everyMs = CHECK_MS): Promise<() => void> {
  await checkDays(db, log)
  const timer = setInterval(() => void checkDays(db, log), everyMs).unref()
  return () => clearInterval(timer)
}

async function checkDays(db: Database, log: Log): Promise<void> {
  try {
    await prepareDays(db)
  } catch (error) {
    log.error({ err: error }, 'could not look at the days of the audit log')
  }
}
