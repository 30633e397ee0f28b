import type pg from 'pg'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { sql } from '../db/orm.ts'

export interface RevocationsRead {
  /** Every transaction before this one has ended: what it wrote has been read, and nothing can be added. */
  horizon: bigint
  users: { txid: bigint; userId: Uuid }[]
}

/**
 * The users whose sign-ins have ended in a transaction from `from` on; without it only the horizon. Snapshot and rows are
 * of one statement, so no transaction falls between them.
 */
export async function readRevocations(
  pool: Pick<pg.Pool, 'query'>,
  from: bigint | undefined,
): Promise<RevocationsRead> {
  const { rows } = await pool.query<{ horizon: string; txid: string | null; user: Uuid | null }>({
    name: 'read_revocations',
    text: `select h.horizon::text, r.txid::text, r.user_id as "user"
      from (select pg_snapshot_xmin(pg_current_snapshot()) as horizon) h
        left join revocations r on r.txid >= $1::xid8`,
    values: [from?.toString() ?? null],
  })
  return {
    horizon: BigInt(rows[0]?.horizon ?? 0),
    users: rows.flatMap(({ txid, user }) => (txid && user ? [{ txid: BigInt(txid), userId: user }] : [])),
  }
}

/** By then every token that they refused has expired, and every replica has read them. */
export async function deleteOldRevocations(tx: Tx, batch: number): Promise<number> {
  const { rowCount } = await tx.execute(sql`delete from revocations where ctid = any(array(
    select ctid from revocations where at < now() - interval '1 hour' limit ${batch}))`)
  return rowCount ?? 0
}
