import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { FIRST_ID, type OwnPage, type OwnRow } from '../../requests/own-data.ts'

export async function ownEvents(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const { rows } = await tx.execute<OwnRow>(sql`
    select id as key, id as event_id, org_id, title, description, start_at, end_at, location_name, latitude, longitude,
      status, created_at
    from events where owner_id = ${userId} and id > ${after ?? FIRST_ID}::uuid order by id limit ${limit}`)
  return rows
}

/** What others own: only what tells which event it was. */
export async function ownParticipations(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const { rows } = await tx.execute<OwnRow>(sql`
    select p.event_id as key, p.event_id, e.title, e.start_at, p.status, p.joined_at
    from event_participants p join events e on e.id = p.event_id
    where p.user_id = ${userId} and p.event_id > ${after ?? FIRST_ID}::uuid order by p.event_id limit ${limit}`)
  return rows
}
