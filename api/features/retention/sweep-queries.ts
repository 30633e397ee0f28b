import type { RetentionTarget } from '../../../crds/retention-rules.ts'
import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { retentionPolicies, retentionSweeps } from '../../db/schema/retention.ts'
import { APP_NOW } from '../../retention/clock.ts'

/** A target whose sweep a guard holds back. */
export interface HeldBack extends Record<string, unknown> {
  target: RetentionTarget
  refused: 'ConfirmationRequired' | 'ClockSkew'
  reason: string
  /** By the clock of the database, as ISO times. */
  since: string
  clockAt: string | null
  due: number
  confirmedDue: number | null
}

const iso = (time: ReturnType<typeof sql>) => sql`to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`
const heldBack = sql`select s.target, s.refused, s.reason, ${iso(sql`s.refused_since`)} as since, ${iso(sql`s.clock_at`)} as "clockAt",
  s.due::float8 as due, s.confirmed_due::float8 as "confirmedDue" from ${retentionSweeps} s`
/** The runs of a policy ask for themselves. */
const isUngoverned = sql`not exists (select from ${retentionPolicies} p where p.target = s.target)`

export async function listRefused(tx: Tx): Promise<HeldBack[]> {
  const { rows } = await tx.execute<HeldBack>(
    sql`${heldBack} where s.refused is not null and ${isUngoverned} order by s.target`,
  )
  return rows
}

export const countRefused = async (tx: Tx): Promise<number> => (await listRefused(tx)).length

/**
 * What a guard asks of this target; undefined when it asks nothing: also when it asked by a clock that has been set back since, or
 * a policy has the target. Locks the row.
 */
export async function lockQuestion(tx: Tx, target: RetentionTarget): Promise<HeldBack | undefined> {
  const { rows } = await tx.execute<HeldBack>(sql`${heldBack} where s.target = ${target} and ${isUngoverned}
    and s.refused = 'ConfirmationRequired' and s.asked_at <= ${APP_NOW} + interval '1 hour' for update of s`)
  return rows[0]
}

/** The next sweep may purge so many. Call with the row locked. */
export const confirm = (tx: Tx, target: RetentionTarget, due: number) =>
  tx.execute(
    sql`update ${retentionSweeps} set confirmed_due = ${due}, confirmed_at = asked_at where target = ${target}`,
  )
