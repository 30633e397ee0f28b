import type { RetentionTarget } from '../../crds/retention-rules.ts'
import type { Tx } from '../db/db.ts'
import { type SQL, sql } from '../db/orm.ts'
import { retentionPolicies } from '../db/schema/retention.ts'
import type { Due } from './target.ts'

/** No other code locks this number. */
const POLICIES = sql`7305811244`

/** From here to the end of the transaction the worker writes no policy down. Each claim of a sweep calls this, and then asks. */
export const lockPolicies = (tx: Tx) => tx.execute(sql`select pg_advisory_xact_lock_shared(${POLICIES})`)

/** First in a transaction that calls `lockPoliciesAlone`: the longest claim takes some seconds, and others that write wait behind it. */
export const waitForClaims = (tx: Tx) => tx.execute(sql`set local lock_timeout = '10s'`)

/** Waits for claims that have not seen what this transaction writes. */
export const lockPoliciesAlone = (tx: Tx) => tx.execute(sql`select pg_advisory_xact_lock(${POLICIES})`)

/** Whether a policy has this target. Then the worker's sweep leaves it alone, also while the policy is suspended. */
export async function hasPolicy(tx: Tx, target: RetentionTarget): Promise<boolean> {
  return (await tx.$count(retentionPolicies, sql`${retentionPolicies.target} = ${target}`)) > 0
}

/**
 * After which time things of the target are purged, as people are told: by the policy in force, or by the specification where
 * the worker purges without a policy. Null: never. A subquery that runs once in a statement: row-level security lets no
 * `coalesce` of a row's column reach an index. The names are written out, for queries that are built once.
 */
export const purgeAfter = (target: RetentionTarget, byDefault: string | null): SQL => {
  const without = byDefault === null ? sql`null` : sql.raw(`'${byDefault}'`)
  return sql`(select case when count(*) = 0 then ${without}::interval else min(p.purge_after) end
    from ${retentionPolicies} p where p.target = ${sql.raw(`'${target}'`)})`
}

/** What counts since this time or before is over at `at`, as people are told; '-infinity' where nothing is ever purged. */
export const overSince = (at: SQL, target: RetentionTarget, byDefault: string | null): SQL =>
  sql`coalesce(${at} - ${purgeAfter(target, byDefault)}, '-infinity'::timestamptz)`

/**
 * What a run purges is older than this. Neither before the rule of the run nor before the time that people are told: a policy
 * may have been changed since the run began, or the worker may not have seen it yet.
 */
export function cutoffOf(due: Due, target: RetentionTarget, byDefault: string | null): SQL {
  const after = due.rules.find(({ action }) => action === 'purge')?.after
  // No rule purges: before everything.
  if (after === undefined) return sql`'-infinity'::timestamptz`
  const at = sql`${due.at}::timestamptz`
  return sql`least(${at} - ${after}::interval, ${overSince(at, target, byDefault)})`
}

/**
 * The value of a time, for a statement that may read all rows before it. Of an expression with a subquery Postgres assumes that
 * a third of all rows are, and reads a large table whole.
 */
export async function constantTime(tx: Tx, time: SQL): Promise<SQL> {
  const { rows } = await tx.execute<{ at: string }>(sql`select (${time})::text as at`)
  return sql`${rows[0]?.at}::timestamptz`
}
