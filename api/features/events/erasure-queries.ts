import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { eventParticipants, events } from '../../db/schema/events.ts'
import { change, holdSuccessor, recordResources } from '../../personal/queries.ts'
import { holdAttachedMedia, lockAlbumOf, releaseAlbum, removeEvent } from './deletion-queries.ts'

interface Whose {
  erasureId: Uuid
  userId: Uuid
}

/** Also of events of organizations that the person is no member of. */
export const eraseParticipation = (tx: Tx, userId: Uuid): Promise<number> =>
  change(tx, sql`delete from ${eventParticipants} where user_id = ${userId}`)

export async function nextEvents(tx: Tx, { erasureId, userId }: Whose): Promise<Uuid[]> {
  await recordResources(tx, erasureId, 'event', sql`select id, org_id from ${events} where owner_id = ${userId}`)
  const { rows } = await tx.execute<{ id: Uuid }>(sql`select id from ${events} where owner_id = ${userId} order by id`)
  return rows.map(({ id }) => id)
}

/** A title of which no one is the author. */
const TITLE = 'Event'

/**
 * A draft, of which no one was told, is deleted with what belongs to it. An event that others take part in gets another
 * owner, who takes part, and keeps its time; what the person wrote about it goes. The new owner is told
 * of its purge.
 */
export async function passEvent(tx: Tx, id: Uuid, userId: Uuid): Promise<'passed' | 'deleted' | 'gone'> {
  const { rows } = await tx.execute<{ status: string; orgId: Uuid }>(sql`
    select status, org_id as "orgId" from ${events} where id = ${id} and owner_id = ${userId} for update`)
  const [event] = rows
  if (!event) return 'gone'
  if (event.status === 'draft') {
    const album = await lockAlbumOf(tx, event.orgId, id)
    await holdAttachedMedia(tx, id)
    if (album) await releaseAlbum(tx, album.id)
    await removeEvent(tx, id)
    return 'deleted'
  }
  const heir = await holdSuccessor(tx, event.orgId, userId)
  await tx.execute(sql`update ${events} set owner_id = coalesce(${heir}::uuid, owner_id),
    title = ${TITLE}, description = null, location_name = null, latitude = null, longitude = null,
    purge_notice_to = null, purge_look_at = '-infinity', version = version + 1, updated_at = now() where id = ${id}`)
  await tx.execute(sql`insert into ${eventParticipants} as p (event_id, user_id, org_id, status, joined_at)
    select id, owner_id, org_id, 'accepted', now() from ${events} where id = ${id} and owner_id <> ${userId}
    on conflict (event_id, user_id) do update set status = 'accepted', joined_at = coalesce(p.joined_at, now())`)
  return 'passed'
}
