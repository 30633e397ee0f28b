import type { Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { type PgColumn, type PgTable, sql } from '../db/orm.ts'

/**
 * A table whose rows are leased: `lease_at` is when the lease ends, by the real clock, and `lease_token` whose it is. A lease
 * without a token only postpones. The index of what is due has `lease_at` as its second column, behind the fact; another one has
 * the rows with a token.
 */
export interface LeasedTable {
  table: PgTable
  /** The primary key. */
  id: PgColumn
}

const among = (ids: readonly Uuid[]) => sql`any(${sql.param([...ids])}::uuid[])`
const inSeconds = (seconds: number) => sql`now() + make_interval(secs => ${seconds})`

/** Leases rows. Call with the rows locked, and their leases seen to have ended. */
export async function lease(
  tx: Tx,
  { table, id }: LeasedTable,
  ids: readonly Uuid[],
  o: { seconds: number; token: Uuid },
): Promise<void> {
  await tx.execute(
    sql`update ${table} set lease_at = ${inSeconds(o.seconds)}, lease_token = ${o.token} where ${id} = ${among(ids)}`,
  )
}

/** Prolongs leases that are still this token's. Returns the rows whose lease it is. */
export async function renewLeases(
  tx: Tx,
  { table, id }: LeasedTable,
  ids: readonly Uuid[],
  o: { seconds: number; token: Uuid },
): Promise<Uuid[]> {
  const { rows } = await tx.execute<{ id: Uuid }>(sql`update ${table} set lease_at = ${inSeconds(o.seconds)}
    where ${id} = ${among(ids)} and lease_token = ${o.token} returning ${id} as id`)
  return rows.map((row) => row.id)
}

/** No one works on these rows before `until`, and no run waits for them: what failed, is locked in the store, or is held. */
export async function postpone(
  tx: Tx,
  { table, id }: LeasedTable,
  ids: readonly Uuid[],
  o: { until: { seconds: number } | Date; token?: Uuid },
): Promise<void> {
  const { until, token } = o
  const at = until instanceof Date ? sql`${until.toISOString()}::timestamptz` : inSeconds(until.seconds)
  const isOwn = token === undefined ? sql`` : sql`and lease_token = ${token}`
  await tx.execute(sql`update ${table} set lease_at = ${at}, lease_token = null where ${id} = ${among(ids)} ${isOwn}`)
}

/** Gives back leases of what was not begun. */
export async function releaseLeases(
  tx: Tx,
  { table, id }: LeasedTable,
  o: { ids: readonly Uuid[]; token: Uuid },
): Promise<void> {
  await tx.execute(
    sql`update ${table} set lease_at = now(), lease_token = null where ${id} = ${among(o.ids)} and lease_token = ${o.token}`,
  )
}

/** Whether another process has a lease on what is due: it may be left to do if that process dies. */
export async function isLeased(tx: Tx, { table }: LeasedTable, isDue = sql`true`): Promise<boolean> {
  const { rows } = await tx.execute<{ leased: boolean }>(sql`select exists (select from ${table}
    where lease_token is not null and lease_at > now() and ${isDue}) as leased`)
  return rows[0]?.leased ?? false
}
