import type { Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { and, eq, sql } from '../db/orm.ts'
import { idempotencyKeys as keys } from '../db/schema/idempotency.ts'

/** The scope of a key: the same text from another user, or for another operation, is another key. */
export interface KeyScope {
  userId: Uuid
  method: string
  route: string
  key: string
}
export type KeyRow = Pick<typeof keys.$inferSelect, 'bodyHash' | 'state' | 'status' | 'response'> & {
  /** Seconds until a running attempt counts as failed. */
  lockedSeconds: number
}

const LOCK = sql`now() + interval '60 seconds'`
const LIFETIME = sql`interval '24 hours'`

const at = (scope: KeyScope) =>
  and(
    eq(keys.userId, scope.userId),
    eq(keys.method, scope.method),
    eq(keys.route, scope.route),
    eq(keys.key, scope.key),
  )
const heldBy = (scope: KeyScope, holder: Uuid) => and(at(scope), eq(keys.holder, holder), eq(keys.state, 'running'))

/**
 * True if this attempt may run: the key is new, or older than a day, or its last attempt failed with the same body (or
 * before its body was known). One statement, so of several concurrent attempts exactly one gets true.
 */
export async function claimKey(tx: Tx, scope: KeyScope, holder: Uuid, bodyHash: string | null): Promise<boolean> {
  const claimed = await tx
    .insert(keys)
    .values({ ...scope, holder, bodyHash, state: 'running', lockedUntil: LOCK })
    .onConflictDoUpdate({
      target: [keys.userId, keys.method, keys.route, keys.key],
      set: {
        holder,
        bodyHash,
        state: 'running',
        lockedUntil: LOCK,
        status: null,
        response: null,
        createdAt: sql`now()`,
      },
      setWhere: sql`${keys.createdAt} < now() - ${LIFETIME} or (
        ${keys.state} = 'running' and ${keys.lockedUntil} < now()
        and (${keys.bodyHash} is null or ${bodyHash}::text is null or ${keys.bodyHash} = ${bodyHash}))`,
    })
    .returning({ key: keys.key })
  return claimed.length > 0
}

export async function findKey(tx: Tx, scope: KeyScope): Promise<KeyRow | undefined> {
  const [row] = await tx
    .select({
      bodyHash: keys.bodyHash,
      state: keys.state,
      status: keys.status,
      response: keys.response,
      lockedSeconds: sql<number>`ceil(extract(epoch from ${keys.lockedUntil} - now()))::float8`,
    })
    .from(keys)
    .where(at(scope))
  return row
}

export async function extendKey(tx: Tx, scope: KeyScope, holder: Uuid): Promise<void> {
  await tx.update(keys).set({ lockedUntil: LOCK }).where(heldBy(scope, holder))
}

/** False if another attempt has taken over the key. */
export async function finishKey(
  tx: Tx,
  scope: KeyScope,
  holder: Uuid,
  answer: { bodyHash: string | null; status: number; response: unknown },
): Promise<boolean> {
  const done = await tx
    .update(keys)
    .set({ state: 'done', ...answer })
    .where(heldBy(scope, holder))
    .returning({ key: keys.key })
  return done.length > 0
}

/** Removes a failed attempt: the next one may begin at once, with any body. */
export async function deleteKey(tx: Tx, scope: KeyScope, holder: Uuid): Promise<void> {
  await tx.delete(keys).where(heldBy(scope, holder))
}

/** For the worker: deletes keys older than a day. Returns how many; call again while it returns `batch`. */
export async function deleteOldIdempotencyKeys(tx: Tx, batch = 1000): Promise<number> {
  const old = sql`select ctid from ${keys} where ${keys.createdAt} < now() - ${LIFETIME} limit ${batch}`
  const result = await tx.execute(sql`delete from ${keys} where ctid = any(array(${old}))`)
  return result.rowCount ?? 0
}
