import type { Uuid } from '../../../lib/contract/ids.ts'
import { found } from '../../requests/found.ts'
import type { Write } from '../../requests/request.ts'
import { recordAlbum } from '../events/deletion.ts'
import { releaseAlbum } from '../events/deletion-queries.ts'
import type { albumActions } from './policy.ts'
import { findAlbum, removeAlbum } from './queries.ts'

/**
 * Deletes an album. Its media items stay in the library, and its highlights with those who made them. What adds to the
 * album or changes it waits for the lock, and then finds no album.
 */
export async function deleteAlbum(request: Write<typeof albumActions.delete>, id: Uuid): Promise<void> {
  const { tx, orgId, actor, permit, ready } = request
  const album = permit(found(await findAlbum(tx, { orgId, id, callerId: actor.userId, lock: true })))
  ready(album)
  await releaseAlbum(tx, id)
  await removeAlbum(tx, id)
  await recordAlbum(request, album)
}
