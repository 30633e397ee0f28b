import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { FIRST_ID, type OwnPage, type OwnRow } from '../../requests/own-data.ts'

export async function ownProfile(tx: Tx, { userId, after }: OwnPage): Promise<OwnRow[]> {
  const { rows } = await tx.execute<OwnRow>(sql`
    select id as key, id as user_id, display_name, email, phone_number, locale, created_at
    from users where id = ${userId} and id > ${after ?? FIRST_ID}::uuid`)
  return rows
}

export async function ownSessions(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const { rows } = await tx.execute<OwnRow>(sql`
    select sid as key, first_seen_at, last_seen_at from sessions
    where user_id = ${userId} and sid > ${after ?? ''} order by sid limit ${limit}`)
  return rows
}
