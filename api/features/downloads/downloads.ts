import type { Id, Uuid } from '../../../lib/contract/ids.ts'
import { downloadPrefix, downloadsPrefix } from '../../../lib/contract/object-keys.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { Database, Tx } from '../../db/db.ts'
import { claimLooks, recordLook } from '../../worker/runs/looks-queries.ts'
import { type PurgeDeps, type PurgeOptions, purgePrefixes } from '../../worker/runs/purge.ts'
import { listDownloadsOf, lockExpired, REMOVED_LOOKS, removeDownloads } from './queries.ts'

/** How long what was made can be downloaded. */
export const KEPT_DAYS = 7
export const expiryOf = (now: Date): Date => new Date(now.getTime() + KEPT_DAYS * 86_400_000)

const BATCH = 100

interface Deps extends PurgeDeps {
  db: Database
}

/** Housekeeping: ends what has expired, and empties what has ended. Every step may run twice. */
export async function sweepDownloads(deps: Deps, o: PurgeOptions = {}): Promise<number> {
  while (!o.signal?.aborted && (await endExpired(deps)) === BATCH);
  return purgePrefixes(
    deps,
    {
      noun: 'download',
      failpoint: 'download.emptied',
      claim: (limits) => deps.db.inTransaction({}, (tx) => claimLooks(tx, REMOVED_LOOKS, limits)),
      about: ({ id }) => ({ download: id }),
      prefixOf: ({ userId, id }) => downloadPrefix(userId, id),
      looksOf: ({ looks }) => looks + 1,
      record: ({ id }, next) => deps.db.inTransaction({}, (tx) => recordLook(tx, REMOVED_LOOKS, id, next)),
    },
    o,
  )
}

const endExpired = ({ db }: Deps): Promise<number> =>
  db.inTransaction({}, async (tx) => {
    const expired = await lockExpired(tx, BATCH)
    await removeDownloads(tx, expired)
    return expired.length
  })

/** Erasure of a person: ends all that they can download, at the commit. */
export async function endDownloadsOf(tx: Tx, userId: Uuid): Promise<void> {
  await removeDownloads(tx, await listDownloadsOf(tx, userId))
}

/** Erasure, after the commit: also what a worker was making. Returns how many objects it has deleted. */
export async function deleteDownloadObjects({ store }: Pick<Deps, 'store'>, userId: Id<'user'>): Promise<number> {
  failpoint('download.erasing')
  return store.deletePrefix(downloadsPrefix(userId))
}
