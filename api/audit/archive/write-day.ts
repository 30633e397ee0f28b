import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { auditDayKey } from '../../../lib/contract/object-keys.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import type { Database, Tx } from '../../db/db.ts'
import { chainOf, digestOf } from '../anchors.ts'
import { findDigests, listHeads } from '../seal-queries.ts'
import { beginAttempt, endAttempt, forgetAttempt } from './attempt-queries.ts'
import { type WrittenFile, writeDayFile } from './day-file.ts'
import { placeOf, type StoredEntry } from './line.ts'
import { proveFile } from './prove-file.ts'
import {
  type ArchiveTier,
  countEntries,
  findArchive,
  findChains,
  insertArchive,
  listForFile,
  memberRow,
} from './queries.ts'
import type { Day } from './segments-plan.ts'

const PAGE = 2000

export interface WriteDayDeps {
  /** Connected as keepsake_worker. */
  db: Database
  store: ObjectStore
}

export interface WriteDay {
  day: Day
  tier: ArchiveTier
  /** Under which the caller has leased the day. */
  token: Uuid
  /** Whether the lease is still the caller's; locks it until the end of the transaction. */
  holds(tx: Tx): Promise<boolean>
  signal?: AbortSignal
}

/**
 * Copies a closed and sealed day into the object store and switches its readers to the object. Removes nothing: the
 * partition may be detached afterward. May run twice, also at once: each attempt has an object of its own, and the one
 * whose lease holds at the end becomes the day's. False for a day that was switched before, or by another process.
 */
export async function writeDay(
  { db, store }: WriteDayDeps,
  { day, tier, token, holds, signal }: WriteDay,
): Promise<boolean> {
  const id = newUuid()
  const objectKey = auditDayKey(day, id)
  const isBegun = await db.inTransaction({}, async (tx) => {
    if (!(await holds(tx)) || (await findArchive(tx, day))) return false
    await beginAttempt(tx, { id, day, objectKey, leaseToken: token })
    return true
  })
  if (!isBegun) return false
  // From here on an error leaves the object to the sweep: what a failed commit or upload has done is not known.
  const file = await writeDayFile(store, objectKey, day, sealedEntries(db, day), signal)
  failpoint('audit.day-written')
  // Read back as readers will: from here on the partition may be dropped.
  const row = { ...file, day, objectKey, members: file.members.map(memberRow) }
  for await (const _ of proveFile(store, row)) signal?.throwIfAborted()
  const isSwitched = await db.inTransaction({}, async (tx) => {
    // The lease may have ended while this process stood still, and the table of the day may be gone.
    if (!(await holds(tx)) || !(await endAttempt(tx, id))) return false
    if (await findArchive(tx, day)) return false
    await checkCounts(tx, day, file)
    return insertArchive(tx, { day, tier, objectKey, file })
  })
  if (isSwitched) return true
  await store.deleteForGood(objectKey)
  await db.inTransaction({}, (tx) => forgetAttempt(tx, id))
  return false
}

/**
 * Pages of a table that was taken away meanwhile are empty, and look like the end of the day. So the file has to have what
 * the chains of the day say, and these have to be what was anchored.
 */
async function checkCounts(tx: Tx, day: Day, file: WrittenFile): Promise<void> {
  const { digest, previous } = await findDigests(tx, day)
  if (digest !== null && digest !== digestOf(day, (await listHeads(tx, day, day)).map(chainOf), previous)) {
    throw new Error(`the chains of ${day} are not those of its anchor`)
  }
  const { entries, own, links, heads } = await countEntries(tx, day)
  const { entries: written, late } = file
  if (entries === written && own === written - late && links === heads) return
  throw new Error(
    `the file of ${day} has ${written} entries, ${late} of them late; the log has ${entries}, with ${own} in ` +
      `${links} links of the day, whose chains end at ${heads}`,
  )
}

/** In pages of a transaction each: nothing changes in a day that is closed and sealed. */
async function* sealedEntries(db: Database, day: Day): AsyncGenerator<StoredEntry> {
  let after: StoredEntry | undefined
  for (;;) {
    const page = await db.read({}, async (tx) => {
      const rows = await listForFile(tx, { day, after, limit: PAGE })
      const chains = await findChains(tx, rows.map(placeOf), { from: day, to: day })
      const late = rows.filter(({ id }) => !chains.has(id))
      // Mostly none: looking for them takes every later partition.
      const later = await findChains(tx, late.map(placeOf), { from: day, to: null })
      return rows.map((row) => ({ ...row, chain: chains.get(row.id) ?? later.get(row.id) ?? null }))
    })
    yield* page
    after = page.at(-1)
    if (page.length < PAGE) return
  }
}
