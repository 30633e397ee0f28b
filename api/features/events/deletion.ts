import type { Uuid } from '../../../lib/contract/ids.ts'
import type { AlbumRow } from '../../db/schema/albums.ts'
import { lockPermitted } from '../../requests/lock-permitted.ts'
import { refuseHeld } from '../../requests/refuse-held.ts'
import type { Write } from '../../requests/request.ts'
import { holdAttachedMedia, lockAlbumOf, releaseAlbum, removeEvent } from './deletion-queries.ts'
import type { eventActions } from './policy.ts'
import { findEvent } from './queries.ts'

/**
 * Deletes a draft with everything that belongs to it. Media items stay in the library, and highlights of its album stay
 * with their creators. A request that changes the event meanwhile waits for the lock, and then finds no event.
 */
export async function deleteEvent(request: Write<typeof eventActions.delete>, id: Uuid): Promise<void> {
  const { tx, orgId, permit, ready, announce, audit } = request
  const event = await lockPermitted((lock) => findEvent(tx, orgId, id, lock ? { lock: 'update' } : {}), permit)
  const album = await lockAlbumOf(tx, orgId, id)
  ready({ ...event, albumStatus: album?.status ?? null })
  const people = [event.ownerId, ...(album ? [album.ownerId] : [])]
  await refuseHeld(tx, { people, organization: orgId, event: id })
  await holdAttachedMedia(tx, id)
  if (album) {
    await releaseAlbum(tx, album.id)
    await recordAlbum(request, album)
  }
  await removeEvent(tx, id)
  await announce('EventDeleted', nextVersion(event), {
    event_id: id,
    org_id: orgId,
    actor_id: request.actor.userId,
  })
  await audit('EVENT_ACTION', event, { operation: 'delete' })
}

type Recording = Pick<Write<typeof eventActions.delete>, 'actor' | 'announce' | 'audit'>

/** Announces that an album is gone, and writes it to the audit log. */
export async function recordAlbum({ actor, announce, audit }: Recording, album: AlbumRow): Promise<void> {
  await announce('AlbumDeleted', nextVersion(album), {
    album_id: album.id,
    org_id: album.orgId,
    event_id: album.eventId,
    actor_id: actor.userId,
  })
  await audit('ALBUM_ACTION', album, { operation: 'delete' })
}

const nextVersion = <T extends { version: number }>(row: T): T => ({ ...row, version: row.version + 1 })
