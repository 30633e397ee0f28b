import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../../db/db.ts'
import { forgetAttempt, giveUpAttempts } from './attempt-queries.ts'

const BATCH = 20

/** Deletes what attempts to write a day have left whose process died or lost its lease. The worker calls it in every sweep. */
export async function sweepAttempts(
  { db, store }: { db: Database; store: Pick<ObjectStore, 'deleteForGood'> },
  signal?: AbortSignal,
): Promise<void> {
  for (;;) {
    const attempts = await db.inTransaction({}, (tx) => giveUpAttempts(tx, BATCH))
    for (const { id, objectKey, isLast } of attempts) {
      await store.deleteForGood(objectKey)
      if (isLast) await db.inTransaction({}, (tx) => forgetAttempt(tx, id))
    }
    if (attempts.length < BATCH || signal?.aborted) return
  }
}
