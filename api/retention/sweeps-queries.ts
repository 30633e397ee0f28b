import type { RetentionTarget } from '../../crds/retention-rules.ts'
import type { Tx } from '../db/db.ts'
import { type SQL, sql } from '../db/orm.ts'
import { retentionPolicies, retentionRuns, retentionSweeps } from '../db/schema/retention.ts'
import { APP_NOW } from './clock.ts'
import type { Refusal } from './guard-plan.ts'

/** A moment to the microsecond, in UTC, as Postgres reads it again. */
export const exactly = (time: SQL) => sql<string>`to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

/** Not the time of a clock that has been set back since. */
const isNotAhead = (time: SQL) => sql`${time} <= ${APP_NOW} + interval '1 hour'`
const days = (time: SQL) => sql<number | null>`(extract(epoch from ${APP_NOW} - ${time}) / 86400)::float8`

/**
 * The days since the last run of the target that began, or its last sweep; null: there was none. Dry runs do not count, for
 * nothing asks before them. `target` is SQL, as is `run`, which is left out.
 */
export const daysSinceLast = (target: SQL, run?: SQL): SQL<number | null> =>
  days(sql`greatest(
    (select max(o.clock_at) from ${retentionRuns} o where o.target = ${target} ${run ? sql`and o.run <> ${run}` : sql``}
      and not o.dry_run and ${isNotAhead(sql`o.clock_at`)}),
    (select s.clock_at from ${retentionSweeps} s where s.target = ${target} and ${isNotAhead(sql`s.clock_at`)}))`)

export interface SweepSeen {
  /** A policy has the target. */
  isGoverned: boolean
  /** `now()` in milliseconds. */
  nowMs: number
  /** `app_now()`. */
  appNow: string
  /** Since the last sweep began; null: there was none, or its clock is ahead of today's. */
  msSinceSweep: number | null
  daysSinceLast: number | null
  /** What a person has confirmed: how many, and the days since the guard asked. */
  confirmed: { due: number; days: number } | undefined
}

export async function lookAtSweep(tx: Tx, target: RetentionTarget): Promise<SweepSeen> {
  const one = sql`${target}::text`
  const { rows } = await tx.execute<{
    governed: boolean
    now: number
    appNow: string
    ms: number | null
    days: number | null
    due: number | null
    confirmedDays: number | null
  }>(sql`
    select exists (select from ${retentionPolicies} p where p.target = ${one}) as governed,
      (extract(epoch from clock_timestamp()) * 1000)::float8 as now, ${exactly(APP_NOW)} as "appNow",
      case when ${isNotAhead(sql`s.clock_at`)} then (extract(epoch from ${APP_NOW} - s.clock_at) * 1000)::float8 end as ms,
      ${daysSinceLast(one)} as days, s.confirmed_due::float8 as due, ${days(sql`s.confirmed_at`)} as "confirmedDays"
    from (select) as here left join ${retentionSweeps} s on s.target = ${one}`)
  const [row] = rows
  if (!row) throw new Error('the database does not answer')
  const { due, confirmedDays } = row
  return {
    isGoverned: row.governed,
    nowMs: row.now,
    appNow: row.appNow,
    msSinceSweep: row.ms,
    daysSinceLast: row.days,
    confirmed: due === null || confirmedDays === null ? undefined : { due, days: confirmedDays },
  }
}

/** A sweep begins at this time of `app_now()`: later ones are compared with it, and what asked has its answer. */
export async function admitSweep(tx: Tx, target: RetentionTarget, clockAt: string): Promise<void> {
  await tx.execute(sql`insert into ${retentionSweeps} as s (target, clock_at) values (${target}, ${clockAt}::timestamptz)
    on conflict (target) do update set clock_at = excluded.clock_at, refused = null, reason = null, refused_since = null,
      asked_at = null, due = null, confirmed_due = null, confirmed_at = null`)
}

/** A guard holds the sweep back. What later ones are compared with stays; a confirmation stays, for fewer. */
export async function refuseSweep(
  tx: Tx,
  target: RetentionTarget,
  o: {
    refusal: Pick<Refusal, 'reason'> & { ended: 'ClockSkew' | 'ConfirmationRequired' }
    askedAt: string
    due: number
  },
): Promise<void> {
  const { ended, reason } = o.refusal
  await tx.execute(sql`insert into ${retentionSweeps} as s (target, clock_at, refused, reason, refused_since, asked_at, due)
    values (${target}, null, ${ended}, ${reason}, now(), ${o.askedAt}::timestamptz, ${o.due})
    on conflict (target) do update set refused = excluded.refused, reason = excluded.reason,
      refused_since = coalesce(s.refused_since, now()), asked_at = excluded.asked_at, due = excluded.due`)
}
