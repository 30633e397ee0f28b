import type { Tx } from '../db/db.ts'
import { and, asc, eq, inArray, isNull, sql } from '../db/orm.ts'
import { outbox } from '../db/schema/outbox.ts'

export type OutboxRow = typeof outbox.$inferSelect

/** What an attempt failed at whose reaction had succeeded: it is not called again. */
const AFTER_REACTION = /^(publish|mark):/

/** Whether a reaction, if the type has one, is still to be called. */
export const awaitsReaction = ({ isRepeated, lastError }: Pick<OutboxRow, 'isRepeated' | 'lastError'>): boolean =>
  !isRepeated && !AFTER_REACTION.test(lastError ?? '')

/** Rows of these types whose reaction is still to be called, or only the others. */
export interface ByReaction {
  types: readonly string[]
  isAwaited: boolean
}

/** The same in the database. */
const isByReaction = ({ types, isAwaited }: ByReaction) => sql`(${outbox.type} = any (${sql.param(types)}::text[])
  and not ${outbox.isRepeated} and coalesce(${outbox.lastError}, '') !~ ${AFTER_REACTION.source}) = ${isAwaited}`

/**
 * Claims up to `limit` due rows for `leaseSeconds`: until then no other relay gets them, afterwards any relay can. Only
 * the oldest unpublished row of an aggregate can be claimed, so its events leave in order. `attempts` in the rows
 * counts this attempt and identifies the lease.
 */
export async function claimDue(
  tx: Tx,
  o: { limit: number; leaseSeconds: number; byReaction?: ByReaction },
): Promise<OutboxRow[]> {
  // A common table expression with FOR UPDATE runs once; as a subquery it could run per row and lock more than `limit`.
  const due = tx.$with('due').as(
    tx
      .select({ id: outbox.id })
      .from(outbox)
      .where(
        and(
          isNull(outbox.publishedAt),
          sql`${outbox.nextAttemptAt} <= now()`,
          o.byReaction && isByReaction(o.byReaction),
          sql`not exists (select from outbox older where older.published_at is null
            and older.aggregate_id = ${outbox.aggregateId}
            and (older.aggregate_version, older.id) < (${outbox.aggregateVersion}, ${outbox.id}))`,
        ),
      )
      .orderBy(asc(outbox.nextAttemptAt), asc(outbox.id))
      .limit(o.limit)
      .for('update', { skipLocked: true }),
  )
  return tx
    .with(due)
    .update(outbox)
    .set({
      attempts: sql`${outbox.attempts} + 1`,
      nextAttemptAt: sql`now() + make_interval(secs => ${o.leaseSeconds})`,
    })
    .where(inArray(outbox.id, sql`(select id from ${due})`))
    .returning()
}

/** Does nothing when the lease was lost: the relay that holds it now publishes again, perhaps into another stream. */
export async function markPublished(
  tx: Tx,
  row: Pick<OutboxRow, 'id' | 'attempts'>,
  streamSeq: number | null,
): Promise<void> {
  await tx
    .update(outbox)
    .set({ publishedAt: sql`now()`, streamSeq, lastError: null })
    .where(and(eq(outbox.id, row.id), eq(outbox.attempts, row.attempts), isNull(outbox.publishedAt)))
}

/** Postpones a row. Does nothing when the lease was lost: the relay that holds it now decides. */
export async function markFailed(
  tx: Tx,
  row: Pick<OutboxRow, 'id' | 'attempts'>,
  failure: { message: string; retrySeconds: number },
): Promise<void> {
  await tx
    .update(outbox)
    .set({
      lastError: failure.message.slice(0, 1000),
      nextAttemptAt: sql`now() + make_interval(secs => ${failure.retrySeconds})`,
    })
    .where(and(eq(outbox.id, row.id), eq(outbox.attempts, row.attempts), isNull(outbox.publishedAt)))
}

/** The number of unpublished events and the age of the oldest. */
export async function measureOutbox(tx: Tx): Promise<{ unpublished: number; oldestSeconds: number }> {
  const [row] = await tx
    .select({
      unpublished: sql<number>`count(*)::int`,
      oldestSeconds: sql<number>`coalesce(extract(epoch from now() - min(${outbox.createdAt})), 0)::float8`,
    })
    .from(outbox)
    .where(isNull(outbox.publishedAt))
  return row ?? { unpublished: 0, oldestSeconds: 0 }
}

/** Deletes events published more than a week ago. Returns how many; call again while it returns `batch`. */
export async function deleteOldEvents(tx: Tx, batch: number): Promise<number> {
  const old = sql`select ctid from ${outbox} where ${outbox.publishedAt} < now() - interval '7 days' limit ${batch}`
  const { rowCount } = await tx.execute(sql`delete from ${outbox} where ctid = any(array(${old}))`)
  return rowCount ?? 0
}
