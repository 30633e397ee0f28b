import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Database, Tx } from '../../../db/db.ts'
import { appendEvent } from '../../../outbox/queries.ts'
import type { RunKey } from '../../../worker/runs/kind.ts'
import { variantKeys } from '../variants.ts'
import { findConverted, updateBatchLeft } from './queries.ts'

/** Object keys under the names of `variants`: a link is a credential, and expires before most consumers read it. */
export async function announceConversion(tx: Tx, id: Uuid): Promise<void> {
  const row = await findConverted(tx, id)
  await appendEvent(tx, {
    orgId: row.orgId,
    aggregateId: row.id,
    aggregateVersion: row.version,
    type: 'MediaTranscoded',
    payload: {
      media_id: row.id,
      variants: { ...variantKeys(row), asset_identifier: row.assetIdentifier },
    },
    traceparent: null,
  })
}

/**
 * Lets an image wait for another batch, because its own failed as a whole. Returns false when the image has left the
 * batch already or its conversion is over.
 */
export function leaveBatch(db: Database, key: RunKey, batch: Uuid): Promise<boolean> {
  return db.inTransaction({}, (tx) => updateBatchLeft(tx, key, batch))
}
