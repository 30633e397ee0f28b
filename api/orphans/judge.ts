import { createHash } from 'node:crypto'
import { type ObjectStore, StoreError } from '../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../db/db.ts'
import { lockHolds } from '../retention/holds-queries.ts'
import { type Fate, fateOf } from './plan.ts'
import { listDays, listGoverned, listHeldOrganizations, listHeldPeople, readClock } from './queries.ts'
import type { Found } from './scan.ts'

export interface OrphanDeps {
  /** Connected as keepsake_worker. Row-level security shows any other role nothing, and so makes everything an orphan. */
  db: Database
  store: ObjectStore
}

type ArchivedDay = NonNullable<ReturnType<Awaited<ReturnType<typeof listDays>>['get']>>

/** What becomes of each of these folders, in their order. A statement for each kind that is among them. */
export async function judge({ db, store }: OrphanDeps, window: readonly Found[]): Promise<Fate[]> {
  const seen = await db.read({}, async (tx) => {
    // A hold that is being added counts.
    await lockHolds(tx)
    const governed = new Set<string>()
    for (const [kind, of] of Map.groupBy(window, (found) => found.kind)) {
      const rows = await listGoverned(
        tx,
        kind,
        of.map(({ row }) => row),
      )
      for (const { path, row } of of) if (rows.has(row)) governed.add(path)
    }
    const orgs = await listHeldOrganizations(tx, definite(window, 'orgId'))
    const people = await listHeldPeople(tx, definite(window, 'userId'))
    const days = await listDays(tx, definite(window, 'day'))
    return { governed, orgs, people, days, clockMs: await readClock(tx) }
  })
  // Of two clocks the one by which everything is younger.
  const nowMs = Math.min(seen.clockMs, Date.now())
  const fates: Fate[] = []
  for (const found of window) {
    const { path, orgId, userId, day, newestMs } = found
    const facts = {
      hasRow: seen.governed.has(path),
      ...{ newestMs, nowMs },
      isHeld: (orgId !== undefined && seen.orgs.has(orgId)) || (userId !== undefined && seen.people.has(userId)),
    }
    const fate = fateOf({ ...facts, isOnlyCopy: false })
    const isDoubtful = fate === 'orphan' && day !== undefined && !(await isCopyOf(store, found, seen.days.get(day)))
    fates.push(fateOf({ ...facts, isOnlyCopy: isDoubtful }))
  }
  return fates
}

const definite = (window: readonly Found[], field: 'orgId' | 'userId' | 'day'): string[] => [
  ...new Set(window.flatMap((found) => found[field] ?? [])),
]

/**
 * Whether an object without a row has the very bytes of the day that the database names, and that object is there, or the
 * day was purged after its time. Anything else may be all that is left of entries that a restore has lost.
 */
async function isCopyOf(store: ObjectStore, found: Found, row: ArchivedDay | undefined): Promise<boolean> {
  if (!row || row.bytes !== found.bytes) return false
  if (row.tier !== 'purged' && (await store.head(row.objectKey))?.size !== row.bytes) return false
  return (await sha256Of(store, found.path)) === row.sha256
}

/** Undefined for an object that is gone, or that the store does not give out: that of one day does not keep the others. */
async function sha256Of(store: ObjectStore, key: string): Promise<string | undefined> {
  const hash = createHash('sha256')
  try {
    const { body } = await store.get(key)
    for await (const chunk of body) hash.update(chunk)
  } catch (error) {
    if (error instanceof StoreError && error.code !== 'Unavailable') return undefined
    throw error
  }
  return hash.digest('hex')
}
