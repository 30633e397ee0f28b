import type { RetentionTarget } from '../../crds/retention-rules.ts'
import type { Tx } from '../db/db.ts'
import { type SQL, sql } from '../db/orm.ts'
import { retentionPolicies } from '../db/schema/retention.ts'
import type { Due } from './target.ts'

/** Whether a policy has this target. Then the worker's sweep leaves it alone, also while the policy is suspended. */
export async function hasPolicy(tx: Tx, target: RetentionTarget): Promise<boolean> {
  return (await tx.$count(retentionPolicies, sql`${retentionPolicies.target} = ${target}`)) > 0
}

/**
 * After which time things of the target are purged, as people are told: by the policy in force, or else by the specification.
 * A subquery that runs once in a statement: row-level security lets no `coalesce` of a row's column reach an index.
 */
export const purgeAfter = (target: RetentionTarget, byDefault: string): SQL =>
  sql`(select coalesce(min(p.purge_after), ${byDefault}::interval) from ${retentionPolicies} p where p.target = ${target})`

/**
 * What a run purges is older than this. Neither before the rule of the run nor before the time that people are told: a policy
 * may have been changed since the run began, or the worker may not have seen it yet.
 */
export function cutoffOf(due: Due, target: RetentionTarget, byDefault: string): SQL {
  const after = due.rules.find(({ action }) => action === 'purge')?.after
  // No rule purges: before everything.
  if (after === undefined) return sql`'-infinity'::timestamptz`
  const at = sql`${due.at}::timestamptz`
  return sql`least(${at} - ${after}::interval, ${at} - ${purgeAfter(target, byDefault)})`
}

/**
 * The value of a time, for a statement that may read all rows before it. Of an expression with a subquery Postgres assumes that
 * a third of all rows are, and reads a large table whole.
 */
export async function constantTime(tx: Tx, time: SQL): Promise<SQL> {
  const { rows } = await tx.execute<{ at: string }>(sql`select (${time})::text as at`)
  return sql`${rows[0]?.at}::timestamptz`
}
