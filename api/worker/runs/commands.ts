import type { Database } from '../../db/db.ts'
import type { RunKey, RunKind, RunTypes, TableOfKind } from './kind.ts'
import { progressMove, type Run, type Running } from './progress-plan.ts'
import { lockRun, type RunResult, updateCompleted, updateFailed, updatePlayable, updateProgress } from './queries.ts'

/**
 * The moves of a row. Any number of workers may make them repeatedly: status and generation guard each, so that it takes
 * effect once. Each returns false when the row stays unchanged.
 */

export function recordProgress(db: Database, kind: TableOfKind, key: RunKey, running: Running): Promise<boolean> {
  return db.inTransaction({}, async (tx) => {
    const row = await lockRun(tx, kind, key)
    const move = row && progressMove(row, running)
    if (move) await updateProgress(tx, kind, key, move)
    return move !== undefined
  })
}

/** Lets clients play what has been made so far. */
export const recordPlayable = (
  db: Database,
  kind: TableOfKind,
  key: RunKey,
  found: { prefix: string; hlsMaster: string },
): Promise<boolean> => db.inTransaction({}, (tx) => updatePlayable(tx, kind, key, found))

/** Completes a run and announces it, once per generation. Without `result` there was nothing to make. */
export function completeRun<K extends RunTypes>(
  db: Database,
  kind: RunKind<K>,
  key: RunKey,
  result: RunResult<K['manifest']> | null,
  run?: Run,
): Promise<boolean> {
  return db.inTransaction({}, async (tx) => {
    const error = await kind.hold?.(tx, key.id)
    if (error !== undefined) return updateFailed(tx, kind, key, error, run)
    const isNews = await updateCompleted(tx, kind, key, result, run)
    if (isNews) await kind.announce(tx, key.id)
    return isNews
  })
}

/** Fails a run. What `hold` says is the reason before all others. */
export function failRun<K extends RunTypes>(
  db: Database,
  kind: RunKind<K>,
  key: RunKey,
  error: K['failure'],
  run?: Run,
): Promise<boolean> {
  return db.inTransaction({}, async (tx) => updateFailed(tx, kind, key, (await kind.hold?.(tx, key.id)) ?? error, run))
}

/** Fails a run if `hold` says so. */
export function failIfHeld<K extends RunTypes>(db: Database, kind: RunKind<K>, key: RunKey): Promise<boolean> {
  return db.inTransaction({}, async (tx) => {
    const error = await kind.hold?.(tx, key.id)
    return error !== undefined && updateFailed(tx, kind, key, error, undefined)
  })
}
