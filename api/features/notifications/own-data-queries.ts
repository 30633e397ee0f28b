import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { FIRST_ID, type OwnPage, type OwnRow } from '../../requests/own-data.ts'

export async function ownPreferences(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const { rows } = await tx.execute<OwnRow>(sql`
    select channel || ' ' || template as key, channel, template, enabled, updated_at
    from notification_preferences
    where user_id = ${userId} and channel || ' ' || template > ${after ?? ''} order by key limit ${limit}`)
  return rows
}

/** Without addresses, which are credentials. */
export async function ownDevices(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const { rows } = await tx.execute<OwnRow>(sql`
    select id as key, id as device_id, kind, created_at, registered_at
    from devices where user_id = ${userId} and id > ${after ?? FIRST_ID}::uuid order by id limit ${limit}`)
  return rows
}
