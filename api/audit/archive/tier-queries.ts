import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { type SQL, sql } from '../../db/orm.ts'
import { auditDayLeases } from '../../db/schema/audit-archive.ts'
import { APP_NOW } from '../../retention/clock.ts'
import { type LeasedTable, lease } from '../../retention/leases-queries.ts'
import { cutoffOf } from '../../retention/policies-queries.ts'
import type { ClaimOptions, Due } from '../../retention/target.ts'
import type { Day } from './segments-plan.ts'

export const DAY_LEASES: LeasedTable = { table: auditDayLeases, id: auditDayLeases.id }

/** What is due to a day. `tidy`: the object that it had before is still to be deleted. */
export type DayStep = 'archive' | 'chill' | 'purge' | 'tidy'
export interface DueDay {
  /** Of its lease. */
  id: Uuid
  day: Day
  step: DayStep
}

/** Whatever a policy says, the log itself keeps a year. */
const LEAST_KEPT = sql`interval '1 year'`
/**
 * A late entry is in the file of its own day and in the chain of a later one, which it proves: its file outlives that chain.
 */
const LATE_DAYS = 40

const before = (due: Due, after: string | undefined): SQL =>
  after === undefined ? sql`null::date` : sql`((${due.at}::timestamptz - ${after}::interval) at time zone 'UTC')::date`

/** Days with their next step, as a list of common table expressions whose last one is `steps`. */
function stepsOf(due: Due): SQL {
  const moves = due.rules.filter(({ action }) => action === 'moveToTier')
  const cold = moves.find(({ tier }) => tier === 'cold')?.after
  const purge = sql`(least(${cutoffOf(due, 'AuditLog', '7 years')}, ${APP_NOW} - ${LEAST_KEPT}) at time zone 'UTC')::date`
  return sql`cuts as materialized (
      select ${before(due, due.rules[0]?.after)} as archive_before, ${before(due, cold)} as cold_before,
        ${purge} as purge_before, (${APP_NOW} at time zone 'UTC')::date - 90 as last_movable
    ), whole as materialized (
      -- The table of the days before the log had one for each leaves the database whole.
      select since.log as since, since.log <= cuts.last_movable + 1 as is_old, not exists (select from audit_heads h
        where h.day < since.log and not exists (select from audit_archives a where a.day = h.day)) as is_copied
      from audit_since since, cuts
    ), steps as (
      select d.day, coalesce(a.bytes, 0) as bytes, case
        when a.left_key is not null then 'tidy'
        when a.day is null then case when d.day < cuts.archive_before and d.day <= cuts.last_movable then 'archive' end
        when d.day >= whole.since and to_regclass('public.audit_log_' || to_char(d.day, 'YYYYMMDD')) is not null
          then case when d.day <= cuts.last_movable then 'archive' end
        when d.day < whole.since and whole.is_old and whole.is_copied
          and to_regclass('public.audit_log_before') is not null then 'archive'
        when a.tier <> 'purged' and d.day + case when a.late > 0 then ${LATE_DAYS} else 0 end < cuts.purge_before then 'purge'
        when a.tier = 'warm' and d.day < cuts.cold_before then 'chill'
      end as step
      from audit_days d left join audit_archives a on a.day = d.day, cuts, whole
      where d.anchored_at is not null
    )`
}

export async function countDays(tx: Tx): Promise<number> {
  const { rows } = await tx.execute<{ n: number }>(sql`select count(*)::int as n from audit_days`)
  return rows[0]?.n ?? 0
}

export async function countDueDays(tx: Tx, due: Due): Promise<number> {
  const { rows } = await tx.execute<{ n: number }>(
    sql`with ${stepsOf(due)} select count(*)::int as n from steps where step is not null`,
  )
  return rows[0]?.n ?? 0
}

/** Leases days, oldest first. */
export async function claimDays(tx: Tx, due: Due, o: ClaimOptions): Promise<DueDay[]> {
  await tx.execute(sql`with ${stepsOf(due)} insert into audit_day_leases (day)
    select day from steps where step is not null on conflict do nothing`)
  const { rows } = await tx.execute<{ id: Uuid; day: Day; step: DayStep }>(sql`
    with ${stepsOf(due)}, free as materialized (
      select l.id, l.day from audit_day_leases l
      where l.lease_at <= now() and exists (select from steps s where s.day = l.day and s.step is not null)
      order by l.day limit ${o.limit} for update skip locked
    )
    select free.id, free.day::text, steps.step from free join steps on steps.day = free.day order by free.day`)
  await lease(
    tx,
    DAY_LEASES,
    rows.map(({ id }) => id),
    o,
  )
  return rows
}

export async function listDueDays(
  tx: Tx,
  due: Due,
  o: { after: string | undefined; limit: number },
): Promise<{ day: Day; step: DayStep; bytes: number }[]> {
  const { rows } = await tx.execute<{ day: Day; step: DayStep; bytes: string }>(sql`with ${stepsOf(due)}
    select day::text, step, bytes::text from steps
    where step is not null and day > ${o.after ?? '0001-01-01'}::date order by day limit ${o.limit}`)
  return rows.map((row) => ({ ...row, bytes: Number(row.bytes) }))
}

/** Locks the lease; false if it is another process's by now. */
export async function holdsDay(tx: Tx, { id }: Pick<DueDay, 'id'>, token: Uuid): Promise<boolean> {
  const { rows } = await tx.execute(
    sql`select from audit_day_leases where id = ${id} and lease_token = ${token} for update`,
  )
  return rows.length === 1
}

/** Whether all that the table of the day has is in the object store. */
export async function isTableCopied(tx: Tx, day: Day): Promise<boolean> {
  const { rows } = await tx.execute<{ copied: boolean }>(sql`select ${day}::date >= log or not exists (
      select from audit_heads h where h.day < log and not exists (select from audit_archives a where a.day = h.day)) as copied
    from audit_since`)
  return rows[0]?.copied ?? false
}

/** Both give up after a moment, with `lock_not_available`, rather than let changes wait behind them. */
export const detachDay = (tx: Tx, day: Day) => tx.execute(sql`select audit_detach_day(${day}::date)`)
export const dropDay = (tx: Tx, day: Day) => tx.execute(sql`select audit_drop_day(${day}::date)`)

/** The object of the day is another one, in the cold tier. */
export async function markCold(tx: Tx, day: Day, objectKey: string): Promise<void> {
  await tx.execute(sql`update audit_archives set tier = 'cold', left_key = object_key, object_key = ${objectKey}
    where day = ${day}::date and tier = 'warm'`)
}

/** Readers find nothing of the day from the commit on. */
export async function markPurged(tx: Tx, day: Day): Promise<{ entries: number; manifest: string } | undefined> {
  const { rows } = await tx.execute<{ entries: number; manifest: string }>(sql`
    update audit_archives set tier = 'purged', left_key = object_key, members = '[]'
    where day = ${day}::date and tier <> 'purged' returning entries, manifest_sha256 as manifest`)
  if (rows.length > 0) await tx.execute(sql`select audit_forget_day(${day}::date)`)
  return rows[0]
}

export async function markTidy(tx: Tx, day: Day): Promise<void> {
  await tx.execute(sql`update audit_archives set left_key = null where day = ${day}::date`)
}

/** The next step of the day, if one is due, may be claimed. */
export async function endDay(tx: Tx, { id }: Pick<DueDay, 'id'>): Promise<void> {
  await tx.execute(sql`update audit_day_leases set lease_at = now(), lease_token = null where id = ${id}`)
}
