import { formatId, type Uuid } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { isUniqueViolation } from '../../db/errors.ts'
import type { MediaRow } from '../../db/schema/media.ts'
import { type Change, found, type Write } from '../../http/in-organization.ts'
import { findMedia } from '../queries.ts'
import { DELETE_MOVES, deletionStateOf, RESTORE_MOVES } from './plan.ts'
import { lockWithCounterpart, type MediaSeen, markDeleted, markRestored, PairChanged } from './queries.ts'

/** Moves a media item, and the counterpart of a Live Photo, to the trash. A repeat changes nothing. */
export async function deleteMedia(request: Write<'media.delete'>, id: Uuid): Promise<void> {
  const { tx, orgId, actor, permit } = request
  const locked = found(await lockWithCounterpart(tx, orgId, id))
  const move = DELETE_MOVES[deletionStateOf(permit(locked.row))]
  if (move === 'not-found') found(undefined)
  if (move !== 'delete') return
  for (const row of await markDeleted(tx, locked.all, actor.userId)) await recordDeletion(request, row)
}

async function recordDeletion({ announce, audit }: Change, row: MediaRow): Promise<void> {
  await announce('MediaDeleted', row, {
    media_id: formatId('media', row.id),
    org_id: formatId('organization', row.orgId),
    uploader_id: formatId('user', row.uploaderId),
    deleted_at: (row.deletedAt as Date).toISOString(),
  })
  await audit('MEDIA_DELETE', row, { operation: 'delete' })
}

/** Takes a media item, and the counterpart of a Live Photo, out of the trash. */
export async function restoreMedia(request: Write<'media.restore'>, id: Uuid) {
  const { tx, orgId, permit, audit } = request
  const locked = found(await lockWithCounterpart(tx, orgId, id))
  const move = RESTORE_MOVES[deletionStateOf(permit(locked.row))]
  if (move === 'refuse') throw new Problem('RESTORE_WINDOW_EXPIRED', 'It is too late to restore this media item')
  const moved = move === 'restore' ? await restored(request, locked.all) : []
  for (const row of moved) await audit('MEDIA_DELETE', row, { operation: 'restore' })
  return found(await findMedia(tx, orgId, id))
}

async function restored({ tx }: Change, rows: readonly MediaSeen[]): Promise<MediaRow[]> {
  try {
    return await markRestored(tx, rows)
  } catch (error) {
    if (!isUniqueViolation(error, 'media_pair')) throw error
    throw new Problem('CONFLICT', 'Another media item with this live_photo_pair_id has been uploaded since', {
      cause: error,
    })
  }
}

/** A media item is paired once in its life, so a second try is enough; one more for the case that it was unpaired. */
const TRIES = 3

/** Runs a transaction again when a Live Photo was paired while it waited. */
export async function whilePaired<T>(transaction: () => Promise<T>): Promise<T> {
  for (let tried = 1; ; tried++) {
    try {
      return await transaction()
    } catch (error) {
      if (!(error instanceof PairChanged) || tried === TRIES) throw error
    }
  }
}
