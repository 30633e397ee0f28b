import { formatId, type Uuid } from '../../../../lib/contract/ids.ts'
import { mediaPrefix } from '../../../../lib/contract/object-keys.ts'
import { failpoint } from '../../../../lib/runtime/failpoint.ts'
import type { Log } from '../../../../lib/runtime/log.ts'
import type { ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'
import { changesOf } from '../../../requests/change.ts'
import { listUnfinished, type StopDeps, stopConversions } from '../conversion/stop.ts'
import { nextLook } from './purge-plan.ts'
import {
  claimDue,
  claimLooks,
  deletePurged,
  findPurging,
  forgetPurged,
  type PurgedRow,
  recordLook,
} from './purge-queries.ts'

export interface PurgeDeps extends StopDeps, PurgeReports {
  store: ObjectStore
  log: Log
}

/** What metrics count. */
export interface PurgeReports {
  onPurged?(mediaItems: number): void
  /** Versions, delete markers and open uploads count as well. */
  onObjectsDeleted?(objects: number): void
  onPurgeFailed?(): void
}

export interface PurgeOptions {
  batch?: number
  /** How long a claim is valid. A media item that cannot be purged now is tried again after it. */
  leaseSeconds?: number
  signal?: AbortSignal
}

const LEASE_SECONDS = 600

/**
 * Housekeeping, as keepsake_worker: purges what was deleted more than 30 days ago. Every step may run twice, and any
 * number of workers may do this. Returns how many media items it has purged.
 */
export async function purgeDue(deps: PurgeDeps, o: PurgeOptions = {}): Promise<number> {
  const { batch = 50, leaseSeconds = LEASE_SECONDS, signal } = o
  let purged = 0
  for (;;) {
    const groups = await deps.db.inTransaction({}, (tx) => claimDue(tx, { limit: batch, leaseSeconds }))
    if (groups.length === 0) return purged
    failpoint('purge.claimed')
    const jobs = await listUnfinished(deps)
    for (const ids of groups) {
      if (signal?.aborted) return purged
      purged += await attempt(deps, { media: ids }, async () => {
        // The next round finds the resource gone and its pods, most likely, as well.
        if (await stopConversions(deps, jobs, ids)) return 0
        return purgeGroup(deps, ids)
      })
    }
  }
}

/** One media item, or both halves of a Live Photo. The objects first: without the row nothing would find them. */
async function purgeGroup(deps: PurgeDeps, ids: readonly Uuid[]): Promise<number> {
  const rows = await deps.db.inTransaction({}, (tx) => findPurging(tx, ids))
  for (const row of rows) await emptyPrefix(deps, row)
  failpoint('purge.emptied')
  const purged = await deps.db.inTransaction({}, async (tx) => {
    const still = await findPurging(tx, ids)
    if (still.length === 0) return 0
    for (const row of still) await recordPurge(tx, row)
    await deletePurged(tx, still, nextLook(0)?.inSeconds ?? 0)
    failpoint('purge.deleted')
    return still.length
  })
  failpoint('purge.committed')
  deps.onPurged?.(purged)
  return purged
}

async function emptyPrefix(deps: PurgeDeps, { orgId, id }: Pick<PurgedRow, 'orgId' | 'id'>): Promise<void> {
  const prefix = mediaPrefix(orgId, id)
  const deleted = await deleteBelow(deps, prefix)
  failpoint('purge.objects-deleted')
  if (deleted > 0 && (await deleteBelow(deps, prefix)) > 0) throw new Error(`something still writes below ${prefix}`)
}

async function deleteBelow(
  { store, onObjectsDeleted }: Pick<PurgeDeps, 'store' | 'onObjectsDeleted'>,
  prefix: string,
): Promise<number> {
  const deleted = await store.deletePrefix(prefix)
  onObjectsDeleted?.(deleted)
  return deleted
}

async function recordPurge(tx: Parameters<typeof findPurging>[0], row: PurgedRow): Promise<void> {
  const { announce, audit } = changesOf(tx, { orgId: row.orgId, actorId: null, context: null })
  const payload = { media_id: formatId('media', row.id), org_id: formatId('organization', row.orgId) }
  await announce('MediaPurged', { ...row, version: row.version + 1 }, payload)
  await audit('MEDIA_DELETE', row, { operation: 'purge' })
}

/**
 * Housekeeping: looks again at the prefixes of purged media items, and deletes what a pod wrote there after the purge.
 * Returns how many objects it has deleted.
 */
export async function sweepPurged(deps: Omit<PurgeDeps, keyof StopDeps> & Pick<StopDeps, 'db'>, o: PurgeOptions = {}) {
  const { batch = 200, leaseSeconds = LEASE_SECONDS, signal } = o
  let deleted = 0
  for (;;) {
    const looks = await deps.db.inTransaction({}, (tx) => claimLooks(tx, { limit: batch, leaseSeconds }))
    for (const { mediaId, orgId, looks: done } of looks) {
      if (signal?.aborted) return deleted
      deleted += await attempt(deps, { media: mediaId }, async () => {
        const found = await deleteBelow(deps, mediaPrefix(orgId, mediaId))
        failpoint('purge.looked')
        if (found > 0) deps.log.warn({ media: mediaId, found }, 'deleted what was written after a purge')
        // Who wrote once may write again: the looks start over.
        const next = nextLook(found > 0 ? 0 : done + 1)
        await deps.db.inTransaction({}, (tx) => (next ? recordLook(tx, mediaId, next) : forgetPurged(tx, mediaId)))
        return found
      })
    }
    if (looks.length < batch) return deleted
  }
}

/** What cannot be purged now does not hold up the others. */
async function attempt(
  { log, onPurgeFailed }: Pick<PurgeDeps, 'log' | 'onPurgeFailed'>,
  what: object,
  work: () => Promise<number>,
): Promise<number> {
  try {
    return await work()
  } catch (error) {
    onPurgeFailed?.()
    log.warn({ err: error, ...what }, 'could not purge a media item; trying again later')
    return 0
  }
}
