import type { Database, Tx } from '../db/db.ts'
import { type ConversionSeen, progressMove, type RunningConversion } from '../features/media/conversion/plan.ts'

interface Rows<K> {
  /** Locks the row of a run that is not over, because what may be written depends on it. */
  lock(tx: Tx, key: K): Promise<ConversionSeen | undefined>
  update(tx: Tx, key: K, move: ConversionSeen): Promise<void>
}

/** Records the progress of a run. The result is false when the row stays unchanged or the run is over. */
export const recordingProgress =
  <K>({ lock, update }: Rows<K>) =>
  (db: Database, key: K, running: RunningConversion): Promise<boolean> =>
    db.inTransaction({}, async (tx) => {
      const row = await lock(tx, key)
      const move = row && progressMove(row, running)
      if (move) await update(tx, key, move)
      return move !== undefined
    })
