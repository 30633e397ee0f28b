import type { HighlightManifest } from '../../../../lib/contract/highlight-manifest.ts'
import { formatId, type Uuid } from '../../../../lib/contract/ids.ts'
import type { Database } from '../../../db/db.ts'
import type { HighlightError } from '../../../db/schema/highlights.ts'
import { appendEvent } from '../../../outbox/queries.ts'
import { recordingProgress } from '../../../worker/record-progress.ts'
import type { Run } from '../../media/conversion/plan.ts'
import { sourceDeleted } from './facts.ts'
import {
  holdDeletedSource,
  lockRendering,
  type RenderKey,
  updateCompleted,
  updateFailed,
  updatePlayable,
  updateProgress,
  withdrawFilmsOf,
} from './queries.ts'

export const recordRenderProgress = recordingProgress<RenderKey>({ lock: lockRendering, update: updateProgress })

/** Lets clients play the beginning of the film. Returns false when they already can or the render is over. */
export const recordFilmPlayable = (db: Database, key: RenderKey, found: { prefix: string; hlsMaster: string }) =>
  db.inTransaction({}, (tx) => updatePlayable(tx, key, found))

/**
 * Completes a highlight and announces it, or fails it if a media item of it has been deleted. Any number of workers may
 * call this repeatedly: only the transaction that moves the row appends HighlightGenerated.
 */
export function completeRender(
  db: Database,
  key: RenderKey,
  result: { prefix: string; manifest: HighlightManifest },
  run?: Run,
): Promise<boolean> {
  return db.inTransaction({}, async (tx) => {
    const deleted = await holdDeletedSource(tx, key.id)
    if (deleted) return updateFailed(tx, key, sourceDeleted(deleted), run)
    const row = await updateCompleted(tx, key, result, run)
    if (!row) return false
    await appendEvent(tx, {
      orgId: row.orgId,
      aggregateId: row.id,
      aggregateVersion: row.version,
      type: 'HighlightGenerated',
      payload: {
        highlight_id: formatId('highlight', row.id),
        media_ids: row.mediaIds.map((id) => formatId('media', id)),
        hls_master_url: result.prefix + result.manifest.hls.master,
      },
      traceparent: null,
    })
    return true
  })
}

/** Fails a highlight; a deleted media item is the reason before all others. False when the render was over already. */
export function failRender(db: Database, key: RenderKey, error: HighlightError, run?: Run): Promise<boolean> {
  return db.inTransaction({}, async (tx) => {
    const deleted = await holdDeletedSource(tx, key.id)
    return updateFailed(tx, key, deleted ? sourceDeleted(deleted) : error, run)
  })
}

/** Fails a highlight if a media item of it is deleted now. One that was restored in time changes nothing. */
export function failForDeletedSource(db: Database, key: RenderKey): Promise<boolean> {
  return db.inTransaction({}, async (tx) => {
    const deleted = await holdDeletedSource(tx, key.id)
    return deleted !== undefined && updateFailed(tx, key, sourceDeleted(deleted))
  })
}

const ERASED: HighlightError = {
  code: 'SOURCE_ERASED',
  message: 'The film showed media items of a user who has been erased',
  mediaId: null,
}
const ERASED_AT_ONCE = 100

/**
 * Withdraws all films, finished or not, that show media items of a user who is erased: frames are personal data. The
 * worker stops the renders and removes the files. Each batch is a transaction, so an interrupted call can be repeated.
 * Returns how many films it has withdrawn.
 */
export async function eraseHighlightsOf(db: Database, userId: Uuid): Promise<number> {
  for (let erased = 0; ; ) {
    const batch = { userId, error: ERASED, limit: ERASED_AT_ONCE }
    const { found, withdrawn } = await db.inTransaction({}, (tx) => withdrawFilmsOf(tx, batch))
    erased += withdrawn
    if (found < ERASED_AT_ONCE) return erased
  }
}
