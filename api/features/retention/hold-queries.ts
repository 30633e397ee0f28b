import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, desc, eq, isNull, sql } from '../../db/orm.ts'
import { erasures } from '../../db/schema/erasures.ts'
import { events } from '../../db/schema/events.ts'
import { organizations } from '../../db/schema/organizations.ts'
import { HOLD_KINDS, type HoldKind, type LegalHoldRow, legalHolds } from '../../db/schema/retention.ts'
import { users } from '../../db/schema/users.ts'

export { HOLD_KINDS, type HoldKind, type LegalHoldRow }

const SUBJECTS = { person: users, event: events, organization: organizations } as const

export async function subjectExists(tx: Tx, kind: HoldKind, id: Uuid): Promise<boolean> {
  const table = SUBJECTS[kind]
  return (await tx.$count(table, eq(table.id, id))) > 0
}

const inForce = isNull(legalHolds.releasedAt)

export async function findHoldOn(tx: Tx, kind: HoldKind, subject: Uuid): Promise<LegalHoldRow | undefined> {
  const [row] = await tx
    .select()
    .from(legalHolds)
    .where(and(eq(legalHolds.kind, kind), eq(legalHolds.subject, subject), inForce))
  return row
}

export async function findHold(tx: Tx, id: Uuid): Promise<LegalHoldRow | undefined> {
  const [row] = await tx.select().from(legalHolds).where(eq(legalHolds.id, id))
  return row
}

/** Call with `lockHoldsAlone`. */
export async function insertHold(
  tx: Tx,
  row: Pick<LegalHoldRow, 'id' | 'kind' | 'subject' | 'reason' | 'placedBy'>,
): Promise<LegalHoldRow> {
  const [made] = await tx.insert(legalHolds).values(row).returning()
  return made as LegalHoldRow
}

/** Undefined when there is none in force. */
export async function releaseHoldRow(tx: Tx, id: Uuid): Promise<LegalHoldRow | undefined> {
  const [row] = await tx
    .update(legalHolds)
    .set({ releasedAt: sql`now()` })
    .where(and(eq(legalHolds.id, id), inForce))
    .returning()
  return row
}

/** Has the workers look at erasures that wait for the end of a hold. Those that another hold keeps go on waiting. */
export async function wakeHeldErasures(tx: Tx): Promise<void> {
  await tx.execute(sql`select pg_notify('erasures', id::text) from ${erasures}
    where status = 'processing' and held_since is not null`)
}

/** The latest first. */
export async function listHolds(tx: Tx, o: { released: boolean; limit: number }): Promise<LegalHoldRow[]> {
  return tx
    .select()
    .from(legalHolds)
    .where(o.released ? undefined : inForce)
    .orderBy(desc(legalHolds.createdAt), desc(legalHolds.id))
    .limit(o.limit)
}
