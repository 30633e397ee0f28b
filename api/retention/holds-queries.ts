import type { Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { type SQL, sql } from '../db/orm.ts'
import { legalHolds } from '../db/schema/retention.ts'

/** No other code locks this number. */
const HOLDS = sql`7305811243`
/** What is under a hold is looked at again after this time, so that the end of a hold needs no list of what it held. */
export const HELD_SECONDS = 86_400

/**
 * From here to the end of the transaction no hold is added. The last transaction of every purge calls this, and then asks
 * whether what it removes is held, in a later statement: so either it sees the hold, or it has committed before the hold was
 * there.
 */
export const lockHolds = (tx: Tx) => tx.execute(sql`select pg_advisory_xact_lock_shared(${HOLDS})`)

/** Waits for the purges that are in their last transaction. Those that come later see what this transaction adds. */
export const lockHoldsAlone = (tx: Tx) => tx.execute(sql`select pg_advisory_xact_lock(${HOLDS})`)

/**
 * Whether a hold is in force on the person or the organization, or on an event for which `event` is true. SQL about columns of
 * the statement around it; write out the names of its tables.
 */
export const isHeld = (by: { person?: SQL; organization?: SQL; event?: (id: SQL) => SQL }): SQL<boolean> => {
  const parts = [
    ...(by.person ? [sql`(h.kind = 'person' and h.subject = ${by.person})`] : []),
    ...(by.organization ? [sql`(h.kind = 'organization' and h.subject = ${by.organization})`] : []),
    ...(by.event ? [sql`(h.kind = 'event' and ${by.event(sql`h.subject`)})`] : []),
  ]
  // The first part runs once in a statement: mostly there is no hold at all.
  return sql<boolean>`((select exists (select from ${legalHolds} where released_at is null))
    and exists (select from ${legalHolds} h where h.released_at is null and (${sql.join(parts, sql` or `)})))`
}

/** Whether a hold is on one of these people, the organization or the event. No other is added before the transaction ends. */
export async function isHeldNow(
  tx: Tx,
  by: { people: readonly Uuid[]; organization: Uuid; event: Uuid | null },
): Promise<boolean> {
  await lockHolds(tx)
  const { rows } = await tx.execute<{ held: boolean }>(
    sql`select ${isHeld({
      person: sql`any(${sql.param([...by.people])}::uuid[])`,
      organization: sql`${by.organization}::uuid`,
      ...(by.event !== null && { event: (id: SQL) => sql`${id} = ${by.event}::uuid` }),
    })} as held`,
  )
  return rows[0]?.held ?? false
}
