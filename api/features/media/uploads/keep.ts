import { originalKey } from '../../../../lib/contract/object-keys.ts'
import type { Log } from '../../../../lib/runtime/log.ts'
import { type ObjectStore, StoreError } from '../../../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../../../db/db.ts'
import { endHeldParts, forgetMultipart, type HeldUpload, listHeldParts } from './queries.ts'

/**
 * Housekeeping: makes an object of the parts that have arrived of an upload that ended under a hold. The bucket has a rule
 * that removes the parts of uploads that are not completed, and it knows no hold. The end of the hold removes the object as
 * it would the parts. Safe to repeat, and in several processes at once. Returns how many uploads it has looked at.
 */
export async function keepHeldParts(
  db: Database,
  store: ObjectStore,
  { log, batch = 100 }: { log: Log; batch?: number },
): Promise<number> {
  let kept = 0
  for (const id of await db.read({}, (tx) => listHeldParts(tx, batch))) {
    try {
      const upload = await db.inTransaction({}, (tx) => endHeldParts(tx, id))
      if (!upload) continue
      await complete(store, upload)
      await db.inTransaction({}, (tx) => forgetMultipart(tx, id))
      kept += 1
    } catch (error) {
      log.warn({ err: error, upload: id }, 'could not complete an upload that a hold keeps; retrying later')
    }
  }
  return kept
}

async function complete(store: ObjectStore, { orgId, mediaId, multipartId }: HeldUpload): Promise<void> {
  const key = originalKey(orgId, mediaId)
  try {
    const parts = await store.listParts(key, multipartId)
    if (parts.length > 0) await store.completeMultipart(key, multipartId, parts)
  } catch (error) {
    // Completed before, by this or by a merge; or removed since, at the end of the hold.
    if (!(error instanceof StoreError && error.code === 'NotFound')) throw error
  }
}
