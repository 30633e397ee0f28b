import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { FIRST_ID, type OwnPage, type OwnRow } from '../../requests/own-data.ts'

export async function ownMemberships(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const { rows } = await tx.execute<OwnRow>(sql`
    select m.org_id as key, m.org_id, o.name, m.role, m.joined_at
    from memberships m join organizations o on o.id = m.org_id
    where m.user_id = ${userId} and m.org_id > ${after ?? FIRST_ID}::uuid order by m.org_id limit ${limit}`)
  return rows
}
