import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { mediaPrefix } from '../../../../lib/contract/object-keys.ts'
import { failpoint } from '../../../../lib/runtime/failpoint.ts'
import type { ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'
import type { Database, Tx } from '../../../db/db.ts'
import { changesOf } from '../../../requests/change.ts'
import { releaseLeases } from '../../../retention/leases-queries.ts'
import type { ClaimOptions, Due } from '../../../retention/target.ts'
import { claimLooks, recordLook } from '../../../worker/runs/looks-queries.ts'
import {
  attemptPurge,
  LEASE_SECONDS,
  type PurgeDeps as PrefixDeps,
  type PurgeOptions,
  type PurgeReports,
  purgePrefixes,
} from '../../../worker/runs/purge.ts'
import { nextLook } from '../../../worker/runs/purge-plan.ts'
import { sweepTarget } from '../../../worker/sweep-target.ts'
import { listUnfinished, type StopDeps, stopConversions } from '../conversion/stop.ts'
import { claimOf } from './erasure-queries.ts'
import { DEFAULT_RESTORE } from './plan.ts'
import {
  beginPurge,
  type Claimed,
  type Claims,
  claimDueOf,
  deletePurged,
  lockClaimed,
  lockPurging,
  MEDIA_LEASES,
  PURGED_LOOKS,
  type PurgedRow,
  postponeHeld,
  TRASH,
} from './purge-queries.ts'

export interface PurgeDeps extends StopDeps, PrefixDeps {
  onPurged?(mediaItems: number): void
}

/**
 * Housekeeping without a policy, as keepsake_worker: purges what was deleted longer ago than it can be restored. Every step may
 * run twice, and any number of workers may do this. Returns how many media items it has purged.
 */
export async function purgeDue(deps: PurgeDeps, o: PurgeOptions = {}): Promise<number> {
  const purged = await sweepTarget(deps, TRASH, DEFAULT_RESTORE, ({ due, mayClaim, goesOn }) => {
    const claim = async (tx: Tx, limits: ClaimOptions) =>
      (await mayClaim(tx)) ? claimDueOf(tx, due, limits) : { groups: [], held: 0 }
    return purgeClaimed(deps, { due, claim, goesOn }, o)
  })
  return purged ?? 0
}

/** The same for what one person has uploaded and what was withdrawn with the person's erasure, whatever its age. */
export const purgeOf = (deps: PurgeDeps, userId: Uuid, o: PurgeOptions = {}): Promise<number> => {
  const claim = async (tx: Tx, limits: ClaimOptions) => {
    const claims = await claimOf(tx, userId, limits)
    // Postponing does not hide what is held from the next claim: the erasure waits for the end of the hold instead.
    return claims.groups.length > 0 ? claims : { groups: [], held: 0 }
  }
  return purgeClaimed(deps, { claim, goesOn: async () => true }, o)
}

interface Purging {
  due?: Due
  claim(tx: Tx, o: ClaimOptions): Promise<Claims>
  /** Whether claimed ones are still to be purged. */
  goesOn(): Promise<boolean>
}

async function purgeClaimed(deps: PurgeDeps, { due, claim, goesOn }: Purging, o: PurgeOptions): Promise<number> {
  const { batch = 50, leaseSeconds = LEASE_SECONDS, signal } = o
  let purged = 0
  for (;;) {
    const token = newUuid()
    const { groups, held } = await deps.db.inTransaction({}, (tx) =>
      claim(tx, { limit: batch, seconds: leaseSeconds, token }),
    )
    if (groups.length + held === 0) return purged
    failpoint('purge.claimed')
    const jobs = await listUnfinished(deps)
    for (const [i, ids] of groups.entries()) {
      if (signal?.aborted) return purged
      if (!(await goesOn())) {
        const left = groups.slice(i).flat()
        await deps.db.inTransaction({}, (tx) => releaseLeases(tx, MEDIA_LEASES, { ids: left, token }))
        return purged
      }
      purged += await attemptPurge(deps, 'media item', { media: ids }, async () => {
        // The next round finds the resource gone and its pods, most likely, as well.
        if (await stopConversions(deps, jobs, ids)) return 0
        const { purged: now, isHeld } = await purgeGroup(deps, { ids, token, ...(due && { due }) })
        // What was restored, or is no longer due, has no one to wait for.
        if (now === 0 && !isHeld)
          await deps.db.inTransaction({}, (tx) => releaseLeases(tx, MEDIA_LEASES, { ids, token }))
        deps.onPurged?.(now)
        return now
      })
    }
  }
}

interface GroupDeps extends Pick<PurgeReports, 'onObjectsDeleted'> {
  db: Database
  store: ObjectStore
}

/** What a purge came to. Neither purged nor held: another process has the lease. */
interface Purged {
  purged: number
  isHeld: boolean
}

/**
 * Purges one media item or both halves of a Live Photo. The objects go first: without the row, nothing finds them. `record`
 * runs in the transaction in which the rows go. `isKept` tells of holds on more than the media item itself: it is asked
 * before the objects go, and where no hold can come any more.
 */
export async function purgeGroup(
  deps: GroupDeps,
  claimed: Claimed,
  record: (tx: Tx, rows: number) => Promise<void> = async () => {},
  isKept: (tx: Tx) => Promise<boolean> = async () => false,
): Promise<Purged> {
  const begun = await deps.db.inTransaction({}, (tx) => begin(tx, claimed, isKept))
  if (!Array.isArray(begun)) return begun
  failpoint('purge.begun')
  for (const row of begun) await emptyPrefix(deps, row)
  const outcome = await deps.db.inTransaction({}, async (tx): Promise<Purged> => {
    const still = await lockPurging(tx, claimed)
    if (still.length < claimed.ids.length) return LOST
    // A hold that came while the objects went keeps the rows: they say what there was.
    if (isHeld(still) || (await isKept(tx))) return keep(tx, claimed)
    for (const row of still) await recordPurge(tx, row)
    await deletePurged(tx, still, nextLook(0)?.inSeconds ?? 0)
    await record(tx, still.length)
    failpoint('purge.deleted')
    return { purged: still.length, isHeld: false }
  })
  failpoint('purge.committed')
  return outcome
}

const LOST: Purged = { purged: 0, isHeld: false }

/** The rows of which the objects may go now; otherwise what the purge came to. */
async function begin(tx: Tx, claimed: Claimed, isKept: (tx: Tx) => Promise<boolean>): Promise<PurgedRow[] | Purged> {
  const rows = await lockClaimed(tx, claimed)
  if (rows.length < claimed.ids.length) return LOST
  if (isHeld(rows) || (await isKept(tx))) return keep(tx, claimed)
  await beginPurge(tx, claimed)
  return rows
}

async function keep(tx: Tx, claimed: Claimed): Promise<Purged> {
  await postponeHeld(tx, claimed)
  return { purged: 0, isHeld: true }
}

const isHeld = (rows: readonly PurgedRow[]) => rows.some((row) => row.isHeld)

async function emptyPrefix(deps: GroupDeps, { orgId, id }: Pick<PurgedRow, 'orgId' | 'id'>): Promise<void> {
  const prefix = mediaPrefix(orgId, id)
  const deleted = await deleteBelow(deps, prefix)
  failpoint('purge.objects-deleted')
  if (deleted > 0 && (await deleteBelow(deps, prefix)) > 0) throw new Error(`something still writes below ${prefix}`)
}

async function deleteBelow({ store, onObjectsDeleted }: GroupDeps, prefix: string): Promise<number> {
  const deleted = await store.deletePrefix(prefix)
  onObjectsDeleted?.(deleted)
  return deleted
}

async function recordPurge(tx: Tx, row: PurgedRow): Promise<void> {
  const { announce, audit } = changesOf(tx, { orgId: row.orgId, actorId: null, context: null })
  const payload = { media_id: row.id, org_id: row.orgId }
  await announce('MediaPurged', { ...row, version: row.version + 1 }, payload)
  await audit('MEDIA_DELETE', row, { operation: 'purge' })
}

/**
 * Housekeeping: looks again at the prefixes of purged media items and of uploads that became none, and deletes what a pod or a
 * merge wrote there afterward.
 * Returns how many objects it has deleted.
 */
export const sweepPurged = (deps: PrefixDeps & Pick<StopDeps, 'db'>, o: PurgeOptions = {}): Promise<number> =>
  purgePrefixes(
    deps,
    {
      noun: 'media item',
      failpoint: 'purge.looked',
      claim: (limits) => deps.db.inTransaction({}, (tx) => claimLooks(tx, PURGED_LOOKS, limits)),
      about: ({ mediaId }) => ({ media: mediaId }),
      prefixOf: ({ orgId, mediaId }) => mediaPrefix(orgId, mediaId),
      looksOf: ({ looks }) => looks + 1,
      onFound: ({ mediaId }, found) =>
        deps.log.warn({ media: mediaId, found }, 'deleted what was written after a purge or the end of an upload'),
      record: ({ mediaId }, next) => deps.db.inTransaction({}, (tx) => recordLook(tx, PURGED_LOOKS, mediaId, next)),
    },
    { batch: 200, ...o },
  )
