import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { events } from '../../db/schema/events.ts'
import { retentionPolicies, retentionRuns } from '../../db/schema/retention.ts'
import { APP_NOW } from '../../retention/clock.ts'
import { purgeTime } from '../events/purge-time-queries.ts'
import { FOUND_DAYS, LAST_NOTICE, type NextNotice, NO_NOTICE, type NoticeSeen, type Told } from './notice-plan.ts'
import { addressee, isEventHeld, isToAnother, isTurnedAway, isUnheard } from './queries.ts'

/** When events are purged by a policy that is carried out. Nothing is purged while one is suspended or only tried. */
const carriedOutAfter = sql`(select min(p.purge_after) from ${retentionPolicies} p
  where p.target = 'EventArchive' and not p.suspended and not p.dry_run)`

/**
 * Whole milliseconds, rounded up: the notice must not name a time before the purge, and the announcement names the time of the
 * row, by which the consumer finds the event.
 */
const msOf = (time: ReturnType<typeof sql>) => sql<number>`ceil(extract(epoch from ${time}) * 1000)::float8`

/** Events at which it is time to look, in the order of the index alone. */
export const dueForNotice = (limit: number) => sql`
  select e.id, e.org_id as "orgId", e.version, e.purge_notice as notice, ${msOf(sql`e.purge_notice_for`)} as "namedMs",
    ${msOf(purgeTime(sql`e`))} as "purgeMs", ${msOf(APP_NOW)} as "nowMs",
    ${isEventHeld} as "isHeld", ${isToAnother} as "isToAnother", ${isUnheard} as "isUnheard"
  from ${events} e
  where e.status = 'archived'
    and e.archived_at <= ${APP_NOW} + make_interval(days => ${FOUND_DAYS}) - ${carriedOutAfter}
    and e.purge_look_at <= ${APP_NOW}
  order by e.archived_at, e.purge_look_at limit ${limit} for update of e skip locked`

export interface DueForNotice
  extends Told,
    Pick<NoticeSeen, 'nowMs' | 'purgeMs' | 'isHeld' | 'isToAnother' | 'isUnheard'> {
  id: Uuid
  orgId: Uuid
  version: number
}

/** Locks events at which it is time to look. */
export async function lockDueForNotice(tx: Tx, limit: number): Promise<DueForNotice[]> {
  const { rows } = await tx.execute<{ [K in keyof DueForNotice]: DueForNotice[K] }>(dueForNotice(limit))
  return rows
}

const timeOf = (ms: number | null) => sql`to_timestamp(${ms}::float8 / 1000)`

/** With the notice that is given again now. */
const refusedInRow = sql`case when not ${isToAnother} and ${isTurnedAway} then e.purge_notices_refused + 1 else 0 end`

/** Call with the events locked. */
export async function saveNotices(tx: Tx, next: readonly (NextNotice & { id: Uuid })[]): Promise<void> {
  for (const { id, told, isNew, lookAgainMs } of next) {
    const looked = sql`purge_look_at = ${timeOf(lookAgainMs)}`
    const isLast = isNew && told.notice === LAST_NOTICE
    const isSame = !isNew && told.notice !== NO_NOTICE
    if (isSame) await tx.execute(sql`update ${events} e set ${looked} where e.id = ${id}`)
    else
      await tx.execute(sql`update ${events} e set ${looked}, purge_notice = ${told.notice},
        purge_notice_for = ${timeOf(told.namedMs)}, purge_notice_to = ${isNew ? addressee : null},
        purge_notice_unhandled = ${isLast},
        purge_notices_refused = ${isLast ? refusedInRow : 0}, purge_begun_at = null where e.id = ${id}`)
  }
}

/** How many events have owners who could not be told for the time being, and were told again. */
export async function countRefusedNotices(tx: Tx): Promise<number> {
  return tx.$count(events, sql`${events.purgeNoticesRefused} > 0`)
}

/** `now()`, by which notices compare clocks, and whether the last run of the policy, but for looks, was refused. */
export async function seeBefore(tx: Tx): Promise<{ databaseMs: number; isRefused: boolean }> {
  const { rows } = await tx.execute<{ now: number; refused: boolean }>(sql`
    select (extract(epoch from clock_timestamp()) * 1000)::float8 as now, coalesce((
      select r.ended in ('ConfirmationRequired', 'ClockSkew') from ${retentionRuns} r where r.target = 'EventArchive'
        and not r.dry_run order by r.started_at desc limit 1), false) as refused`)
  const { now, refused } = rows[0] ?? { now: 0, refused: true }
  return { databaseMs: now, isRefused: refused }
}
