import type { Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { sql } from '../db/orm.ts'
import { users } from '../db/schema/users.ts'

/** False for what was received before. */
export async function insertNotice(tx: Tx, id: string): Promise<boolean> {
  const { rowCount } = await tx.execute(sql`insert into provider_events (id) values (${id}) on conflict do nothing`)
  return rowCount === 1
}

/** A user of whom no token was seen yet. The first one completes the row. */
export async function ensureUserRow(tx: Tx, o: { userId: Uuid; issuer: string; subject: string }): Promise<void> {
  await tx
    .insert(users)
    .values({
      id: o.userId,
      issuer: o.issuer,
      subject: o.subject,
      tokensNotBefore: '-infinity',
      updatedAt: new Date(0),
    })
    .onConflictDoNothing()
}

/** Both kinds of notices are refused long before by their own times. Returns how many. */
export async function deleteOldNotices(tx: Tx, batch: number): Promise<number> {
  const { rowCount } = await tx.execute(sql`delete from provider_events where ctid = any(array(
    select ctid from provider_events where received_at < now() - interval '1 day' limit ${batch}))`)
  return rowCount ?? 0
}
