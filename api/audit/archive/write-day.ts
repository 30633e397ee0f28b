import { auditDayKey } from '../../../lib/contract/object-keys.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../../db/db.ts'
import { writeDayFile } from './day-file.ts'
import { placeOf, type StoredEntry } from './line.ts'
import { proveFile } from './prove-file.ts'
import { type ArchiveTier, findArchive, findChains, insertArchive, listForFile, memberRow } from './queries.ts'
import type { Day } from './segments-plan.ts'

const PAGE = 2000

export interface WriteDayDeps {
  /** Connected as keepsake_worker. */
  db: Database
  store: ObjectStore
}

/**
 * Copies a closed and sealed day into the object store and switches its readers to the object. Removes nothing: the
 * partition may be detached afterward. May run twice, also at once: both write the same bytes, and the first row stays.
 * False for a day that was switched before.
 */
export async function writeDay(
  { db, store }: WriteDayDeps,
  { day, tier, signal }: { day: Day; tier: ArchiveTier; signal?: AbortSignal },
): Promise<boolean> {
  if (await db.read({}, (tx) => findArchive(tx, day))) return false
  const objectKey = auditDayKey(day)
  const file = await writeDayFile(store, objectKey, day, sealedEntries(db, day), signal)
  failpoint('audit.day-written')
  // Read back as readers will: from here on the partition may be dropped.
  const row = { ...file, day, objectKey, members: file.members.map(memberRow) }
  for await (const _ of proveFile(store, row)) signal?.throwIfAborted()
  return db.inTransaction({}, (tx) => insertArchive(tx, { day, tier, objectKey, file }))
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
