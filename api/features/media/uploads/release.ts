import { originalKey, stagingPrefix } from '../../../../lib/contract/object-keys.ts'
import { failpoint } from '../../../../lib/runtime/failpoint.ts'
import type { Log } from '../../../../lib/runtime/log.ts'
import type { ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'
import type { Database, Tx } from '../../../db/db.ts'
import type { UploadRow } from '../../../db/schema/uploads.ts'
import { type Sweep, sweepTarget } from '../../../worker/sweep-target.ts'
import { abandonOldIntents, deleteIntent, mediaExists } from '../queries.ts'
import { expireUploadRows, isUploadKept, listUnreleased, markReleased, markReleasedUnlessHeld } from './queries.ts'
import { DEFAULT, UPLOADS } from './retention-queries.ts'

interface Deps {
  db: Database
  store: ObjectStore
}

/**
 * Removes what an ended session kept in the store, except the original of its media item, and records it. Safe to repeat.
 */
export async function releaseStorage(
  { db, store }: Deps,
  upload: UploadRow,
  record: (tx: Tx) => Promise<unknown> = (tx) => markReleased(tx, upload),
): Promise<void> {
  const { orgId, mediaId, multipartId } = upload
  const key = originalKey(orgId, mediaId)
  if (multipartId) await store.abortMultipart(key, multipartId)
  if (upload.layout === 'staged') await store.deletePrefix(stagingPrefix(orgId, upload.id))
  // A merge may have died between making the object and recording it.
  const exists = await db.read({ org: orgId }, (tx) => mediaExists(tx, mediaId))
  if (!exists) await store.deleteForGood(key)
  failpoint('upload.emptied')
  await db.inTransaction({ org: orgId }, record)
  failpoint('upload.released')
}

/** The same, unless a hold keeps it: then the row stays unreleased, and housekeeping asks again. */
async function releaseUnlessHeld(deps: Deps, upload: UploadRow): Promise<void> {
  const { orgId, id } = upload
  // Before the objects go, and in the transaction after it.
  if (await deps.db.read({ org: orgId }, (tx) => isUploadKept(tx, id))) return
  await releaseStorage(deps, upload, (tx) => markReleasedUnlessHeld(tx, upload))
}

/** The same for a request whose answer does not depend on it: housekeeping repeats what fails. */
export async function tryReleaseStorage(deps: Deps, upload: UploadRow, log: Log): Promise<void> {
  try {
    await releaseUnlessHeld(deps, upload)
  } catch (error) {
    log.warn({ err: error, upload: upload.id }, 'could not release the storage of an upload; left to housekeeping')
  }
}

/** No request lasts this long: 100 MiB at the slowest tolerated speed take less. */
const INTENT_SECONDS = 3 * 3600

interface HousekeepingOptions {
  log: Log
  batch?: number
}

/**
 * Housekeeping without a policy, as keepsake_worker, every few minutes: ends expired sessions and removes from the store what ended sessions
 * left. Safe in several processes at once; an upload that cannot be cleaned up now does not hold up the others.
 */
export async function expireSessions(
  db: Database,
  store: ObjectStore,
  options: HousekeepingOptions,
): Promise<{ expired: number; released: number }> {
  const deps = { db, store, log: options.log }
  const swept = await sweepTarget(deps, UPLOADS, DEFAULT, (sweep) => endSessions(deps, sweep, options))
  return swept ?? { expired: 0, released: 0 }
}

async function endSessions(
  { db, store }: Deps,
  { due, mayClaim, goesOn }: Sweep,
  { log, batch = 100 }: HousekeepingOptions,
): Promise<{ expired: number; released: number }> {
  const expired = await db.inTransaction({}, async (tx) => ((await mayClaim(tx)) ? expireUploadRows(tx, due.at) : 0))
  let released = 0
  for (const upload of await db.read({}, (tx) => listUnreleased(tx, batch))) {
    if (!(await goesOn())) break
    const done = await attempt(log, { upload: upload.id }, () => releaseUnlessHeld({ db, store }, upload))
    released += done ? 1 : 0
  }
  return { expired, released }
}

/** Housekeeping: the same for what failed or killed requests left in the store. Returns how many of them. */
export async function forgetIntents(
  db: Database,
  store: ObjectStore,
  { log, batch = 100, intentSeconds = INTENT_SECONDS }: HousekeepingOptions & { intentSeconds?: number },
): Promise<number> {
  let forgotten = 0
  for (const intent of await db.inTransaction({}, (tx) => abandonOldIntents(tx, intentSeconds, batch))) {
    const done = await attempt(log, { media: intent.mediaId }, async () => {
      const exists = await db.read({}, (tx) => mediaExists(tx, intent.mediaId))
      // A process that was killed may have begun a multipart upload, whose id no row has.
      if (!exists) await store.deleteForGood(originalKey(intent.orgId, intent.mediaId))
      await db.inTransaction({}, (tx) => deleteIntent(tx, intent.mediaId))
    })
    forgotten += done ? 1 : 0
  }
  return forgotten
}

/** Both. */
export async function expireUploads(
  db: Database,
  store: ObjectStore,
  options: HousekeepingOptions & { intentSeconds?: number },
): Promise<{ expired: number; released: number; forgotten: number }> {
  const ended = await expireSessions(db, store, options)
  return { ...ended, forgotten: await forgetIntents(db, store, options) }
}

async function attempt(log: Log, what: object, work: () => Promise<void>): Promise<boolean> {
  try {
    await work()
    return true
  } catch (error) {
    log.warn({ err: error, ...what }, 'could not remove what an upload left; retrying later')
    return false
  }
}
