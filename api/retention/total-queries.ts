import type { Tx } from '../db/db.ts'
import { getTableName, type PgTable, sql } from '../db/orm.ts'

/** Statistics of a small or new table are none, or old. */
const COUNTED = 10_000

/** How many rows a table has: as its statistics say where they are many, for counting reads all of them. */
export async function countRoughly(tx: Tx, table: PgTable): Promise<number> {
  const { rows } = await tx.execute<{ n: number }>(
    sql`select reltuples::float8 as n from pg_class where oid = ${getTableName(table)}::regclass`,
  )
  const estimate = rows[0]?.n ?? 0
  return estimate > COUNTED ? estimate : tx.$count(table)
}
