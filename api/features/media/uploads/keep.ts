import { originalKey } from '../../../../lib/contract/object-keys.ts'
import type { Log } from '../../../../lib/runtime/log.ts'
import { type ObjectStore, StoreError } from '../../../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../../../db/db.ts'
import { partsOf } from './assemble.ts'
import { type Chunk, endHeldParts, forgetMultipart, type HeldUpload, listChunks, listHeldParts } from './queries.ts'

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
      const work = await db.inTransaction({}, async (tx) => {
        const upload = await endHeldParts(tx, id)
        return upload && { upload, chunks: await listChunks(tx, id) }
      })
      if (!work) continue
      await complete(store, work)
      await db.inTransaction({}, (tx) => forgetMultipart(tx, id))
      kept += 1
    } catch (error) {
      log.warn({ err: error, upload: id }, 'could not complete an upload that a hold keeps; retrying later')
    }
  }
  return kept
}

async function complete(
  store: ObjectStore,
  { upload, chunks }: { upload: HeldUpload; chunks: Chunk[] },
): Promise<void> {
  const { orgId, mediaId, multipartId } = upload
  const key = originalKey(orgId, mediaId)
  const listed = await store.listParts(key, multipartId).catch(unlessGone)
  // A store that lists none of the recorded parts may be completing the upload, or may have died while it did: only an
  // attempt to complete it tells.
  const parts = listed?.length ? listed : partsOf(chunks)
  // NotFound: completed before, by this or by a merge; or removed since, at the end of the hold.
  if (parts.length > 0) await store.completeMultipart(key, multipartId, parts).catch(unlessGone)
}

function unlessGone(error: unknown): undefined {
  if (!(error instanceof StoreError && error.code === 'NotFound')) throw error
}
