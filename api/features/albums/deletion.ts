import type { Uuid } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { found } from '../../requests/found.ts'
import type { Write } from '../../requests/request.ts'
import { recordAlbum } from '../events/deletion.ts'
import { releaseAlbum } from '../events/deletion-queries.ts'
import { type albumActions, refuseArchivedAlbum } from './policy.ts'
import { findAlbum, removeAlbum } from './queries.ts'

/**
 * Deletes an album. Its media items stay in the library, and its highlights with those who made them. What adds to the
 * album or changes it waits for the lock, and then finds no album.
 */
export async function deleteAlbum(request: Write<typeof albumActions.delete>, id: Uuid): Promise<void> {
  const { tx, orgId, actor, permit } = request
  const album = permit(found(await findAlbum(tx, { orgId, id, callerId: actor.userId, lock: true })))
  refuseArchivedAlbum(album)
  if (album.eventId !== null) {
    throw new Problem('CONFLICT', 'The album belongs to an event, and goes when the event does')
  }
  await releaseAlbum(tx, id)
  await removeAlbum(tx, id)
  await recordAlbum(request, album)
}
