import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Database, Tx } from '../../db/db.ts'
import { changesOf } from '../../requests/change.ts'
import { findHalf, listLeftVideos, lockHalf } from './pair-left-queries.ts'
import { pair } from './pairing.ts'
import { lockPairing } from './pairing-queries.ts'

const BATCH = 200

/**
 * Housekeeping, as keepsake_worker: pairs the halves of Live Photos that an API of an earlier version stored, which knew
 * no pairs, and which may still serve while this version starts. Any number of workers may do this. Returns how many
 * Live Photos it has made.
 */
export async function pairLeftHalves(db: Database, signal?: AbortSignal): Promise<number> {
  let paired = 0
  for (let after: Uuid | undefined; ; ) {
    const videos = await db.read({}, (tx) => listLeftVideos(tx, { after, limit: BATCH }))
    for (const id of videos) {
      if (signal?.aborted) return paired
      paired += (await db.inTransaction({}, (tx) => pairLeft(tx, id))) ? 1 : 0
    }
    if (videos.length < BATCH) return paired
    after = videos.at(-1)
  }
}

/** As an upload does: the locks of the pairing come before those of rows. */
async function pairLeft(tx: Tx, id: Uuid): Promise<boolean> {
  const known = await findHalf(tx, id)
  if (!known) return false
  await lockPairing(tx, known)
  const row = await lockHalf(tx, id)
  if (!row) return false
  const change = changesOf(tx, { orgId: row.orgId, actorId: null, context: null })
  return (await pair(change, row)).pairedMediaId !== null
}
