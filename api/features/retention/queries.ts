import type { Uuid } from '../../../lib/contract/ids.ts'
import type { RetentionError, RetentionResult, RetentionRun } from '../../../lib/contract/retention.ts'
import type { Tx } from '../../db/db.ts'
import { and, eq, isNull, or, sql } from '../../db/orm.ts'
import { retentionCounts, retentionRuns } from '../../db/schema/retention.ts'
import { APP_NOW } from '../../retention/clock.ts'
import { daysSinceLast, exactly } from '../../retention/sweeps-queries.ts'
import type { Admitted, Done } from '../../retention/target.ts'

export interface Registered {
  /** `now()`, by which leases end. */
  nowMs: number
  appNow: string
  /** `app_now()` when the run began; null before that. */
  clockAt: string | null
  ended: RetentionResult['ended'] | null
  /** Between the last run of the target that began, or its last sweep, and this one. Null: there was none. */
  daysSinceLast: number | null
}

/** Makes the row of a run, for its first process; tells all of them what it says. */
export async function registerRun(tx: Tx, run: RetentionRun): Promise<Registered> {
  const { policy, uid, target, slot, dryRun } = run
  await tx
    .insert(retentionRuns)
    .values({ run: run.run, policy, policyUid: uid, target, slot: new Date(slot), dryRun })
    .onConflictDoNothing()
  const { rows } = await tx.execute<{
    now: number
    appNow: string
    clockAt: string | null
    ended: RetentionResult['ended'] | null
    days: number | null
  }>(sql`
    select (extract(epoch from clock_timestamp()) * 1000)::float8 as now, ${exactly(APP_NOW)} as "appNow",
      ${exactly(sql`r.clock_at`)} as "clockAt", r.ended,
      ${daysSinceLast(sql`r.target`, sql`r.run`)} as days
    from ${retentionRuns} r where r.run = ${run.run}`)
  const [row] = rows
  if (!row) throw new Error(`the run ${run.run} has no row`)
  return { nowMs: row.now, appNow: row.appNow, clockAt: row.clockAt, ended: row.ended, daysSinceLast: row.days }
}

const isThis = (run: string) => eq(retentionRuns.run, run)

/** The last run of the target that began and that carries out its rules; undefined where it purges nothing. */
export async function lastAdmitted(tx: Tx, { run, target }: RetentionRun): Promise<Admitted | undefined> {
  const { rows } = await tx.execute<{ at: string; purgeAfter: string | null }>(sql`
    select ${exactly(sql`clock_at`)} as at, purge_after::text as "purgeAfter" from ${retentionRuns}
    where target = ${target} and run <> ${run} and clock_at <= ${APP_NOW} and not dry_run
    order by started_at desc limit 1`)
  const [last] = rows
  return last && last.purgeAfter !== null ? { at: last.at, purgeAfter: last.purgeAfter } : undefined
}

/** The run begins, at this time. Of several processes at once the first decides. Returns the time. */
export async function admitRun(
  tx: Tx,
  { run, rules }: RetentionRun,
  o: { clockAt: string; due: number; held: number },
): Promise<string> {
  const purgeAfter = rules.find(({ action }) => action === 'purge')?.after ?? null
  await tx
    .update(retentionRuns)
    .set({
      ...{ clockAt: sql`${o.clockAt}::timestamptz`, purgeAfter: sql`${purgeAfter}::interval` },
      ...{ due: o.due, held: o.held, ended: null, reason: null },
    })
    .where(and(isThis(run), isNull(retentionRuns.clockAt)))
  const [row] = await tx
    .select({ clockAt: exactly(sql`${retentionRuns.clockAt}`) })
    .from(retentionRuns)
    .where(isThis(run))
  if (!row) throw new Error(`the run ${run} has no row`)
  return row.clockAt
}

/** The run does not begin. Nothing happens if it has. */
export async function refuseRun(
  tx: Tx,
  run: string,
  o: { ended: RetentionResult['ended']; reason: string; due: number; held: number },
): Promise<void> {
  await tx
    .update(retentionRuns)
    .set({ ...o, finishedAt: sql`now()` })
    .where(and(isThis(run), isNull(retentionRuns.clockAt)))
}

/**
 * A process has ended. What one has finished stays finished, whatever becomes of the others; that one was told to stop says
 * nothing about the run.
 */
export async function endRun(
  tx: Tx,
  run: string,
  o: { ended: RetentionResult['ended']; report?: string },
): Promise<void> {
  await tx
    .update(retentionRuns)
    .set({ ...o, finishedAt: sql`now()` })
    .where(
      and(
        isThis(run),
        o.ended === 'Stopped'
          ? or(isNull(retentionRuns.ended), eq(retentionRuns.ended, 'Stopped'))
          : sql`${retentionRuns.ended} is distinct from 'Finished'`,
      ),
    )
}

/** Adds to the figures of a process of the run, in the transaction of what was done. */
export async function addCounts(
  tx: Tx,
  of: { run: string; process: Uuid },
  done: Done & { failures?: number },
): Promise<void> {
  const { moved = 0, purged = 0, bytes = 0, failures = 0 } = done
  await tx.execute(sql`insert into ${retentionCounts} as c (run, process, moved, purged, bytes, failures)
    values (${of.run}, ${of.process}, ${moved}, ${purged}, ${bytes}, ${failures})
    on conflict (run, process) do update set moved = c.moved + excluded.moved, purged = c.purged + excluded.purged,
      bytes = c.bytes + excluded.bytes, failures = c.failures + excluded.failures`)
}

/** Puts figures in the place of those that the run has: a dry run counts from the beginning. */
export async function replaceCounts(tx: Tx, of: { run: string; process: Uuid }, done: Required<Done>): Promise<void> {
  await tx.delete(retentionCounts).where(eq(retentionCounts.run, of.run))
  await addCounts(tx, of, done)
}

/** Keeps the error of an item, the first ten of a run. */
export async function addError(tx: Tx, run: string, error: RetentionError): Promise<void> {
  await tx.execute(sql`update ${retentionRuns} set errors = errors || ${JSON.stringify([error])}::jsonb
    where run = ${run} and jsonb_array_length(errors) < 10`)
}

/** The result of the run so far, as all its processes made it. */
export async function resultOf(tx: Tx, run: string) {
  const { rows } = await tx.execute<{
    moved: number
    purged: number
    bytes: number
    failures: number
    due: number
    held: number
    ended: RetentionResult['ended'] | null
    reason: string | null
    errors: RetentionError[]
    report: string | null
  }>(sql`
    select coalesce(sum(c.moved), 0)::float8 as moved, coalesce(sum(c.purged), 0)::float8 as purged,
      coalesce(sum(c.bytes), 0)::float8 as bytes, coalesce(sum(c.failures), 0)::float8 as failures,
      r.due::float8 as due, r.held::float8 as held, r.ended, r.reason, r.errors, r.report
    from ${retentionRuns} r left join ${retentionCounts} c on c.run = r.run where r.run = ${run} group by r.run`)
  const [row] = rows
  if (!row) throw new Error(`the run ${run} has no row`)
  return row
}

/** Leases the report of a dry run. False: another process makes it, or it is made. */
export async function leaseReport(tx: Tx, run: string, o: { token: Uuid; seconds: number }): Promise<boolean> {
  const { rowCount } = await tx
    .update(retentionRuns)
    .set({ leaseAt: sql`now() + make_interval(secs => ${o.seconds})`, leaseToken: o.token })
    .where(
      and(
        isThis(run),
        // Not only of a run that nothing has ended: the one before may have been told to stop.
        sql`${retentionRuns.ended} is distinct from 'Finished'`,
        sql`(${retentionRuns.leaseAt} <= now() or ${retentionRuns.leaseToken} = ${o.token})`,
      ),
    )
  return rowCount === 1
}
export async function releaseReport(tx: Tx, run: string, token: Uuid): Promise<void> {
  await tx
    .update(retentionRuns)
    .set({ leaseAt: sql`now()`, leaseToken: null })
    .where(and(isThis(run), eq(retentionRuns.leaseToken, token)))
}

const KEPT_DAYS = 90

/** Deletes old runs, except the last one of each target that began: guards compare with it. Returns their reports. */
export async function deleteOldRuns(tx: Tx, limit: number): Promise<{ run: string; report: string | null }[]> {
  const old = sql`select r.run from ${retentionRuns} r where r.started_at < now() - make_interval(days => ${KEPT_DAYS})
    and exists (select from ${retentionRuns} o where o.target = r.target and o.clock_at is not null
      and not o.dry_run and o.started_at > r.started_at)
    order by r.started_at limit ${limit}`
  return tx
    .delete(retentionRuns)
    .where(sql`${retentionRuns.run} in (${old})`)
    .returning({ run: retentionRuns.run, report: retentionRuns.report })
}
