import type { Uuid } from '../../../lib/contract/ids.ts'
import { lockPermitted } from '../../requests/lock-permitted.ts'
import { refuseHeld } from '../../requests/refuse-held.ts'
import type { Write } from '../../requests/request.ts'
import { recordAlbum } from '../events/deletion.ts'
import { releaseAlbum } from '../events/deletion-queries.ts'
import type { albumActions } from './policy.ts'
import { findAlbum, removeAlbum } from './queries.ts'

/**
 * Deletes an album. Its media items stay in the library, and its highlights stay with their creators. A request that
 * changes the album meanwhile waits for the lock, and then finds no album.
 */
export async function deleteAlbum(request: Write<typeof albumActions.delete>, id: Uuid): Promise<void> {
  const { tx, orgId, actor, permit, ready } = request
  const wanted = { orgId, id, callerId: actor.userId }
  const album = await lockPermitted((lock) => findAlbum(tx, { ...wanted, lock }), permit)
  ready(album)
  await refuseHeld(tx, { people: [album.ownerId], organization: orgId, event: album.eventId })
  await releaseAlbum(tx, id)
  await removeAlbum(tx, id)
  await recordAlbum(request, album)
}
