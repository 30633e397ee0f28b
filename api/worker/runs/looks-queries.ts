import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { asc, eq, inArray, type PgColumn, type PgTable, sql } from '../../db/orm.ts'

/** A table of prefixes that are looked at again: one row each, with how often it has been found empty, and when to look next. */
export interface LooksTable<Row> {
  table: PgTable & { $inferSelect: Row; looks: PgColumn; nextLookAt: PgColumn }
  /** The primary key. */
  id: PgColumn
}

const inSeconds = (seconds: number) => sql`now() + make_interval(secs => ${seconds})`

/** Claims the rows at whose prefix it is time to look, the longest due first. Until the lease ends no other worker gets them. */
export async function claimLooks<Row>(
  tx: Tx,
  { table, id }: LooksTable<Row>,
  o: { limit: number; leaseSeconds: number },
): Promise<Row[]> {
  // A common table expression with FOR UPDATE runs once; as a subquery it could run per row and lock more than `limit`.
  const due = tx.$with('due').as(
    tx
      .select({ key: sql`${id}`.as('key') })
      .from(table)
      .where(sql`${table.nextLookAt} <= now()`)
      .orderBy(asc(table.nextLookAt))
      .limit(o.limit)
      .for('update', { skipLocked: true }),
  )
  const claimed = await tx
    .with(due)
    .update(table)
    .set({ nextLookAt: inSeconds(o.leaseSeconds) })
    .where(inArray(id, sql`(select key from ${due})`))
    .returning()
  return claimed as Row[]
}

/** `next` undefined: the last look is over. */
export async function recordLook<Row>(
  tx: Tx,
  { table, id }: LooksTable<Row>,
  key: Uuid,
  next: { looks: number; inSeconds: number } | undefined,
): Promise<void> {
  const isThis = eq(id, key)
  if (!next) return void (await tx.delete(table).where(isThis))
  await tx
    .update(table)
    .set({ looks: next.looks, nextLookAt: inSeconds(next.inSeconds) })
    .where(isThis)
}
