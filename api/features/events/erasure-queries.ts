import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { eventParticipants, events } from '../../db/schema/events.ts'
import { invitations } from '../../db/schema/invitations.ts'
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
 * of its purge, and is the inviter of those whom the person had invited.
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
  const invited = await lockPassedInvitations(tx, id, userId)
  const heir = await holdSuccessor(tx, event.orgId, userId)
  await tx.execute(sql`update ${events} set owner_id = coalesce(${heir}::uuid, owner_id),
    title = ${TITLE}, description = null, location_name = null, latitude = null, longitude = null,
    purge_notice_to = null, purge_look_at = '-infinity', version = version + 1, updated_at = now() where id = ${id}`)
  await tx.execute(sql`insert into ${eventParticipants} as p (event_id, user_id, org_id, status, joined_at)
    select id, owner_id, org_id, 'accepted', now() from ${events} where id = ${id} and owner_id <> ${userId}
    on conflict (event_id, user_id) do update set status = 'accepted', joined_at = coalesce(p.joined_at, now())`)
  if (heir) await passInvitationsAgain(tx, invited, heir)
  return 'passed'
}

/** Before the membership of the new owner. */
async function lockPassedInvitations(tx: Tx, eventId: Uuid, userId: Uuid): Promise<Uuid[]> {
  const { rows } = await tx.execute<{ id: Uuid }>(sql`select id from ${invitations}
    where former_inviter = ${userId} and event_id = ${eventId} and status = 'pending' order by id for update`)
  return rows.map(({ id }) => id)
}

/**
 * They became those of the member who would have been the owner when the account was closed. That one may have left, or have
 * another role. An administrator who has reissued one stays its inviter.
 */
const passInvitationsAgain = (tx: Tx, ids: readonly Uuid[], heir: Uuid): Promise<number> =>
  change(
    tx,
    sql`update ${invitations} i set invited_by = ${heir}, version = version + 1, updated_at = now()
      where id = any(${sql.param(ids)}::uuid[]) and invited_by <> ${heir} and not exists (select from memberships m
        where m.org_id = i.org_id and m.user_id = i.invited_by and m.role in ('owner', 'admin'))`,
  )
