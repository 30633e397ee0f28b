import type { Uuid } from '../../../lib/contract/ids.ts'
import type { RepairOptions } from '../feature-worker.ts'
import type { Filler } from '../filler.ts'
import type { RunKind, RunObject, RunTypes } from './kind.ts'
import type { RepairDeps, Swept } from './look.ts'
import { findRun, listUnfinished } from './queries.ts'
import { repair } from './repair.ts'
import { stopIfHeld } from './stop.ts'

export interface SweepDeps<T extends RunObject> extends RepairDeps<T> {
  /** Give free slots away after the sweep: the backstop for notifications that no worker received. */
  fillers: readonly Pick<Filler, 'fill'>[]
}

/** Compares Postgres with the cluster and repairs what an interruption left. Any number of workers may do so. */
export async function sweepRuns<K extends RunTypes>(
  deps: SweepDeps<K['object']>,
  kind: RunKind<K>,
  options: RepairOptions,
  signal?: AbortSignal,
): Promise<void> {
  const limit = options.batch ?? 200
  for (let after: Uuid | undefined; ; ) {
    const page = await deps.db.read({}, (tx) => listUnfinished(tx, kind, { ...options, after, limit }))
    for (const row of page) {
      if (signal?.aborted) return
      await repairOrReport({ deps, kind, options }, row)
    }
    after = page.at(-1)?.id
    if (page.length < limit) break
  }
  deps.sightings.prune()
  for (const filler of deps.fillers) if (!signal?.aborted) await filler.fill()
}

/** The same for one row, now. */
export async function repairRun<K extends RunTypes>(
  deps: SweepDeps<K['object']>,
  kind: RunKind<K>,
  options: RepairOptions,
  id: Uuid,
): Promise<void> {
  const at = { idleSeconds: 0, after: undefined, limit: 1, only: id }
  const [row] = await deps.db.read({}, (tx) => listUnfinished(tx, kind, at))
  if (row) return repairOrReport({ deps, kind, options }, row)
  // What was restored from the trash waits for a slot, though its resource may have ended meanwhile.
  const waiting = await deps.db.read({}, (tx) => findRun(tx, kind, id))
  if (waiting?.status === 'processing') deps.follower.lookAgain(kind.nameOf(waiting))
}

/** A row that cannot be repaired now does not hold up the others. */
async function repairOrReport<K extends RunTypes>(swept: Swept<K>, row: K['row']): Promise<void> {
  const { deps, kind } = swept
  try {
    if (!kind.hold || !(await stopIfHeld(deps, kind, row))) await repair(swept, row)
  } catch (error) {
    const idleSeconds = (deps.clock.now().getTime() - row.updatedAt.getTime()) / 1000
    deps.log.warn({ err: error, [kind.rowNoun]: row.id, idleSeconds }, `could not repair a ${kind.noun}`)
  }
}
