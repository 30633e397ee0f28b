import { Problem } from '../../lib/contract/problem.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import { StoreError } from '../../lib/runtime/object-store/object-store.ts'
import { insertAudit } from '../audit/queries.ts'
import { isBehindStore } from '../audit/restores.ts'
import type { Tx } from '../db/db.ts'
import { isPrefix } from './folder-plan.ts'
import { judge, type OrphanDeps } from './judge.ts'
import { type Fate, refusalOf, type Survey, type Tally } from './plan.ts'
import { type Found, lookAgain, windowsOf } from './scan.ts'

const WINDOW = 1000

/** A folder without a row, and what becomes or became of it. `locked`: the bucket refuses to delete it. */
export type OnFolder = (found: Found, state: Exclude<Fate, 'row'> | 'deleted' | 'locked') => void

export interface Report extends Survey {
  /** Of keys of no known kind. */
  unknown: Omit<Tally, 'folders'>
  /** The times of the oldest and the newest orphan, by the newest object of each. */
  since: number | undefined
  until: number | undefined
  /** Why nothing would be deleted. */
  refused: string | undefined
}

interface Asked {
  /** Of one statement. */
  window?: number
  most: boolean
}

/** Looks at everything that rows govern, and changes nothing. Tells of every folder that has no row. */
export async function survey(
  deps: OrphanDeps,
  { window: size = WINDOW, most }: Asked,
  onFolder: OnFolder,
): Promise<Report> {
  const isBehind = await isBehindStore(deps)
  const unknown = { objects: 0, bytes: 0 }
  const report = { all: noTallies(), media: noTallies(), since: Number.POSITIVE_INFINITY, until: 0 }
  const windows = windowsOf(deps.store, size, (object) => {
    unknown.objects += 1
    unknown.bytes += object.size
  })
  for await (const window of windows) {
    const fates = await judge(deps, window)
    for (const [i, found] of window.entries()) {
      const fate = fates[i] as Fate
      count(report.all[fate], found)
      if (found.kind === 'media') count(report.media[fate], found)
      if (fate === 'row') continue
      onFolder(found, fate)
      if (fate !== 'orphan') continue
      report.since = Math.min(report.since, found.newestMs)
      report.until = Math.max(report.until, found.newestMs)
    }
  }
  const has = report.all.orphan.folders > 0
  return {
    ...report,
    unknown,
    since: has ? report.since : undefined,
    until: has ? report.until : undefined,
    refused: refusalOf(report, { most, isBehind }),
  }
}

/**
 * Deletes the orphans: looks at everything first, and refuses where this may not be the database of the store. Each folder
 * is looked at again just before it goes. Nothing else names them, so a run that was interrupted is simply repeated.
 */
export async function deleteOrphans(
  deps: OrphanDeps,
  asked: Asked,
  onFolder: OnFolder,
): Promise<{ before: Report; deleted: Tally; locked: Tally }> {
  const before = await survey(deps, asked, () => {})
  if (before.refused !== undefined) throw new Problem('CONFLICT', before.refused)
  const done = { deleted: noTally(), locked: noTally() }
  const { orphan } = before.all
  if (orphan.folders === 0) return { before, ...done }
  await deps.db.inTransaction({}, (tx) => announce(tx, orphan, asked))
  for await (const window of windowsOf(deps.store, asked.window ?? WINDOW)) {
    const fates = await judge(deps, window)
    for (const found of window.filter((_, i) => fates[i] === 'orphan')) {
      // What was not counted was not weighed, either: a database that is being replaced at this moment is no reason.
      if (done.deleted.folders + done.locked.folders === orphan.folders) return { before, ...done }
      const end = await remove(deps, found)
      if (!end) continue
      count(done[end.state], end.found)
      onFolder(end.found, end.state)
      failpoint('orphans.deleted')
    }
  }
  return { before, ...done }
}

/** Undefined for a folder that is no orphan any more. */
async function remove(
  deps: OrphanDeps,
  folder: Found,
): Promise<{ found: Found; state: 'deleted' | 'locked' } | undefined> {
  const found = await lookAgain(deps.store, folder)
  if (!found) return undefined
  const [fate] = await judge(deps, [found])
  if (fate !== 'orphan') return undefined
  try {
    if (isPrefix(found)) await deps.store.deletePrefix(found.path)
    else await deps.store.deleteForGood(found.path)
    return { found, state: 'deleted' }
  } catch (error) {
    // The lock of one folder does not keep the others.
    if (error instanceof StoreError && error.code === 'Locked') return { found, state: 'locked' }
    throw error
  }
}

/** Before anything is gone, so that an interrupted run is in the log, too. */
const announce = (tx: Tx, { folders, objects, bytes }: Tally, { most }: Asked) =>
  insertAudit(tx, {
    orgId: null,
    actorId: null,
    action: 'ADMIN_ACTION',
    resourceType: 'object_store',
    resourceId: null,
    result: 'success',
    context: null,
    details: { operation: 'delete objects without rows', folders, objects, bytes, most },
  })

const noTally = (): Tally => ({ folders: 0, objects: 0, bytes: 0 })
const noTallies = (): Record<Fate, Tally> => ({
  row: noTally(),
  young: noTally(),
  held: noTally(),
  kept: noTally(),
  orphan: noTally(),
})

function count(tally: Tally, { objects, bytes }: Pick<Tally, 'objects' | 'bytes'>): void {
  tally.folders += 1
  tally.objects += objects
  tally.bytes += bytes
}
