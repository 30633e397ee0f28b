import type { RetentionTarget } from '../../crds/retention-rules.ts'
import type { Tx } from '../db/db.ts'
import { type SQL, sql } from '../db/orm.ts'
import { retentionPolicies } from '../db/schema/retention.ts'
import type { Due } from './target.ts'

/** Whether a policy has this target. Then the worker's sweep leaves it alone, also while the policy is suspended. */
export async function hasPolicy(tx: Tx, target: RetentionTarget): Promise<boolean> {
  return (await tx.$count(retentionPolicies, sql`${retentionPolicies.target} = ${target}`)) > 0
}

/** One value that runs once in a statement: row-level security lets no `coalesce` of a row's column reach an index. */
const byPolicy = (target: RetentionTarget, o: { without: SQL; byRule: SQL; never: SQL }): SQL =>
  sql`(select case when count(*) = 0 then ${o.without} when min(p.purge_after) is null then ${o.never} else ${o.byRule} end
    from ${retentionPolicies} p where p.target = ${target})`

/**
 * After which time things of the target are purged, as people are told: by the policy in force, or else by the specification.
 * Null: never, by a policy in force without a purge.
 */
export const purgeAfter = (target: RetentionTarget, byDefault: string): SQL =>
  byPolicy(target, { without: sql`${byDefault}::interval`, byRule: sql`min(p.purge_after)`, never: sql`null` })

/** What counts since this time or before is over at `at`, as people are told; '-infinity' where nothing is ever purged. */
export const overSince = (at: SQL, target: RetentionTarget, byDefault: string): SQL =>
  byPolicy(target, {
    without: sql`${at} - ${byDefault}::interval`,
    byRule: sql`${at} - min(p.purge_after)`,
    never: sql`'-infinity'::timestamptz`,
  })

/**
 * What a run purges is older than this. Neither before the rule of the run nor before the time that people are told: a policy
 * may have been changed since the run began, or the worker may not have seen it yet.
 */
export function cutoffOf(due: Due, target: RetentionTarget, byDefault: string): SQL {
  const after = due.rules.find(({ action }) => action === 'purge')?.after
  // No rule purges: before everything.
  if (after === undefined) return sql`'-infinity'::timestamptz`
  const at = sql`${due.at}::timestamptz`
  return sql`least(${at} - ${after}::interval, ${overSince(at, target, byDefault)})`
}
