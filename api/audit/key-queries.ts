import type { Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { and, count, eq, gt, inArray, ne, sql } from '../db/orm.ts'
import { auditKeys } from '../db/schema/audit.ts'
import type { Wrapped } from './master-keys.ts'

/** Version 0 says that the keys of a person were shredded. */
const SHREDDED = 0
/** The first number of the advisory locks of shredding. */
const SHREDDING = 730_581

/** A key of a person: which one, and its row. */
export interface KeyRow extends Wrapped {
  personId: Uuid
  version: number
}

/** The key; `shredded` for a person without keys, for good; undefined where none was made yet. */
export async function findKey(tx: Tx, personId: Uuid, version: number): Promise<KeyRow | 'shredded' | undefined> {
  const rows = await tx
    .select()
    .from(auditKeys)
    .where(and(eq(auditKeys.personId, personId), inArray(auditKeys.version, [SHREDDED, version])))
  if (rows.some((row) => row.version === SHREDDED)) return 'shredded'
  return rows.flatMap(keyOf)[0]
}

/** The keys of these, as far as there are. */
export async function findKeys(tx: Tx, wanted: readonly { personId: Uuid; version: number }[]): Promise<KeyRow[]> {
  const rows = await tx
    .select()
    .from(auditKeys)
    .where(
      sql`(${auditKeys.personId}, ${auditKeys.version}) in (select * from unnest(
        ${sql.param(wanted.map((one) => one.personId))}::uuid[], ${sql.param(wanted.map((one) => one.version))}::int[]))`,
    )
  return rows.flatMap(keyOf)
}

/**
 * Keeps a new key, unless there is one already: two processes never use different ones. False while an erasure shreds
 * the keys of the person: waiting would hold up the only connection that other keys come through.
 */
export async function keepKey(tx: Tx, key: KeyRow): Promise<boolean> {
  const { rows } = await tx.execute<{ free: boolean }>(
    sql`select pg_try_advisory_xact_lock_shared(${SHREDDING}, hashtext(${key.personId})) as free`,
  )
  if (!rows[0]?.free) return false
  await tx.insert(auditKeys).values(key).onConflictDoNothing()
  return true
}

/**
 * Removes the keys of a person and makes sure that there never is a new one: what the audit log holds of the person
 * cannot be read any more, in no tier and by no process, as soon as this commits. For keepsake_worker.
 */
export async function shredPersonKeys(tx: Tx, userId: Uuid): Promise<void> {
  await tx.execute(sql`select pg_advisory_xact_lock(${SHREDDING}, hashtext(${userId}))`)
  await tx.delete(auditKeys).where(and(eq(auditKeys.personId, userId), gt(auditKeys.version, SHREDDED)))
  await tx.insert(auditKeys).values({ personId: userId, version: SHREDDED }).onConflictDoNothing()
  await tx.execute(sql`select pg_notify('audit_keys', ${userId})`)
}

/** Keys that another master than the current one wraps, at most so many; other processes skip them. */
export async function lockKeysOfOtherMasters(tx: Tx, current: string, limit: number): Promise<KeyRow[]> {
  const rows = await tx
    .select()
    .from(auditKeys)
    .where(ne(auditKeys.masterId, current))
    .limit(limit)
    .for('update', { skipLocked: true })
  return rows.flatMap(keyOf)
}

export async function rewrapKeys(tx: Tx, keys: readonly KeyRow[]): Promise<void> {
  await tx.execute(sql`update audit_keys set master_id = given.master_id, wrapped = given.wrapped
    from unnest(${sql.param(keys.map((key) => key.personId))}::uuid[], ${sql.param(keys.map((key) => key.version))}::int[],
      ${sql.param(keys.map((key) => key.masterId))}::text[], ${sql.param(keys.map((key) => key.wrapped))}::bytea[])
      as given(person_id, version, master_id, wrapped)
    where audit_keys.person_id = given.person_id and audit_keys.version = given.version`)
}

/** How many keys each master wraps. */
export async function countKeysByMaster(tx: Tx): Promise<Map<string, number>> {
  const rows = await tx
    .select({ masterId: auditKeys.masterId, keys: count() })
    .from(auditKeys)
    .where(gt(auditKeys.version, SHREDDED))
    .groupBy(auditKeys.masterId)
  return new Map(rows.map(({ masterId, keys }) => [masterId ?? '', keys]))
}

const keyOf = ({ personId, version, masterId, wrapped }: typeof auditKeys.$inferSelect): KeyRow[] =>
  masterId === null || wrapped === null ? [] : [{ personId, version, masterId, wrapped }]
