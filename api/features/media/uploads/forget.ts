import type { Database } from '../../../db/db.ts'
import { deleteOldUploads } from './queries.ts'

/** Of versions before chunks went with the storage of their session, one can have 10,000 of them. */
const BATCH = 20
/** The first sweep of this version finds all sessions that there ever were: the other tasks do not wait for them. */
const BATCHES = 50

/**
 * Housekeeping: deletes upload sessions that ended a week ago, so that their names and checksums do not outlive their use:
 * requests can repeat a merge until then. Returns how many; at most a thousand, and the next call goes on.
 */
export async function forgetUploads(db: Database, signal?: AbortSignal): Promise<number> {
  let forgotten = 0
  for (let batch = 0; batch < BATCHES && !signal?.aborted; batch++) {
    const some = await db.inTransaction({}, (tx) => deleteOldUploads(tx, BATCH))
    forgotten += some
    // Fewer say nothing: another worker may have them.
    if (some === 0) break
  }
  return forgotten
}
