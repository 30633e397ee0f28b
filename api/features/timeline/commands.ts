import type { Uuid } from '../../../lib/contract/ids.ts'
import { notFound } from '../../../lib/contract/problem.ts'
import type { Database, Tx } from '../../db/db.ts'
import { isReferenceMissing } from '../../db/errors.ts'
import type { TimelineType } from '../../db/schema/timeline.ts'
import { findOwnership, hideRow, insertRow, type NewItem } from './queries.ts'

import { bumpFeeds, type Key, nextKey, SOURCES } from './record-queries.ts'

/**
 * Inserts an item, unless the organization has one with its key. Throws NOT_FOUND for a reference to what the organization
 * does not have. Call it in a transaction in the scope of the organization, last.
 */
export async function insertItem(tx: Tx, item: NewItem): Promise<{ id: Uuid; isNew: boolean }> {
  const ownership = await findOwnership(tx, item)
  if (!ownership) throw notFound('body.ref_id')
  const inserted = await insertRow(tx, { ...item, ...ownership })
  if (inserted.isNew) await bumpFeeds(tx, [item.orgId])
  return inserted
}

/** Hides an item, for good. False for one that is hidden or not there. Otherwise as `insertItem`. */
export async function hideItem(tx: Tx, orgId: Uuid, id: Uuid): Promise<boolean> {
  const hidden = await hideRow(tx, orgId, id)
  if (hidden) await bumpFeeds(tx, [orgId])
  return hidden
}

/** What no row of Postgres tells of, so that a rebuild cannot bring it back. */
export const LOST: readonly string[] = [
  'changes of albums other than added media items',
  'who activated an event: its owner stands for them',
  'memberships that ended, reactions that were removed, and what was deleted for good',
  'items that services inserted, and which items services hid',
]

export interface Rebuilt {
  orgId: Uuid
  inserted: Partial<Record<TimelineType, number>>
}

export interface RebuildOptions {
  /** Only this organization; all if left out. */
  orgId?: Uuid | undefined
  /** Rows of each step. */
  rows?: number
}

/** A consumer that inserts the same items waits for the step, less than the two seconds that it waits for a lock. */
const ROWS_OF_STEP = 1000
/** Each but the last met a deletion. */
const STEP_TRIES = 100
const NIL: Uuid = '00000000-0000-0000-0000-000000000000'

/**
 * Inserts the items that rows tell of and that timelines lack. It changes no item, and nothing where none is missing.
 * Each step goes through some rows of a table in a transaction of its own: what is done stays done, and a rebuild that was
 * interrupted is continued by another one. Returns the organizations that lacked items.
 */
export async function rebuildTimeline(db: Database, o: RebuildOptions = {}): Promise<Rebuilt[]> {
  const rebuilt = new Map<Uuid, Rebuilt['inserted']>()
  for (const source of SOURCES) {
    let after: Key = source.key.map(() => NIL)
    for (;;) {
      const step = { after, count: o.rows ?? ROWS_OF_STEP }
      const until = await db.read({}, (tx) => nextKey(tx, source, step))
      if (!until) break
      const rows = { after, until, orgId: o.orgId }
      const inserted = await repeatedly(() =>
        db.inTransaction({}, async (tx) => {
          const counts = await source.insert(tx, { rows })
          if (counts.size > 0) await bumpFeeds(tx, [...counts.keys()])
          return counts
        }),
      )
      for (const [orgId, count] of inserted) {
        const counts = rebuilt.get(orgId) ?? {}
        rebuilt.set(orgId, { ...counts, [source.type]: (counts[source.type] ?? 0) + count })
      }
      after = until
    }
  }
  return [...rebuilt].map(([orgId, inserted]) => ({ orgId, inserted }))
}

/** An album or an event that is deleted during the step has no items: the step is repeated without it. */
async function repeatedly<T>(step: () => Promise<T>): Promise<T> {
  for (let tried = 1; ; tried++) {
    try {
      return await step()
    } catch (error) {
      if (!isReferenceMissing(error) || tried === STEP_TRIES) throw error
    }
  }
}
