import { sql } from '../db/orm.ts'

/**
 * The time by which things are due and may be restored: `now()`, unless a test has put another function in its place. Call
 * it once in a statement, not per row. Leases, the outbox and sessions stay on `now()`.
 */
export const APP_NOW = sql<Date>`app_now()`
