import type { Uuid } from '../../../lib/contract/ids.ts'
import { notFound } from '../../../lib/contract/problem.ts'
import type { Database, Tx } from '../../db/db.ts'
import type { TimelineType } from '../../db/schema/timeline.ts'
import { findOwnership, hideRow, insertRow, type NewItem } from './queries.ts'

import { bumpFeeds, insertAll, listOrganizations } from './record-queries.ts'

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
  inserted: Record<TimelineType, number>
}

/**
 * Inserts the items that the rows of an organization, or of all, tell of and that the timeline lacks. It changes no item.
 * One transaction for each organization: what is done stays done.
 */
export async function rebuildTimeline(db: Database, only: Uuid | undefined): Promise<Rebuilt[]> {
  const orgIds = only === undefined ? await db.read({}, listOrganizations) : [only]
  const rebuilt: Rebuilt[] = []
  for (const orgId of orgIds) {
    const inserted = await db.inTransaction({}, async (tx) => {
      const counts = await insertAll(tx, orgId)
      if (Object.values(counts).some((count) => count > 0)) await bumpFeeds(tx, [orgId])
      return counts
    })
    rebuilt.push({ orgId, inserted })
  }
  return rebuilt
}
