import { formatId, type Uuid } from '../../../../lib/contract/ids.ts'
import type { Manifest } from '../../../../lib/contract/manifest.ts'
import type { Database } from '../../../db/db.ts'
import type { ConversionError } from '../../../db/schema/media.ts'
import { appendEvent } from '../../../outbox/queries.ts'
import { recordingProgress } from '../../../worker/record-progress.ts'
import { variantKeys } from '../variants.ts'
import type { Run } from './plan.ts'
import {
  type ConversionKey,
  type Converted,
  lockProcessing,
  updateBatchLeft,
  updateCompleted,
  updateFailed,
  updatePlayable,
  updateProgress,
} from './queries.ts'

export const recordProgress = recordingProgress<ConversionKey>({ lock: lockProcessing, update: updateProgress })

/** Lets clients play what has been converted so far. Returns false when they already can or the conversion is over. */
export function recordPlayable(
  db: Database,
  key: ConversionKey,
  found: { prefix: string; hlsMaster: string },
): Promise<boolean> {
  return db.inTransaction({}, (tx) => updatePlayable(tx, key, found))
}

/**
 * Completes a conversion and announces it. Any number of workers may call this repeatedly: only the transaction that
 * moves the row appends MediaTranscoded, once per generation. Without `result` there was nothing to convert.
 */
export function completeConversion(
  db: Database,
  key: ConversionKey,
  result: { prefix: string; manifest: Manifest } | null,
  run?: Run,
): Promise<boolean> {
  return db.inTransaction({}, async (tx) => {
    const row = await updateCompleted(tx, key, result, run)
    if (!row) return false
    await appendEvent(tx, {
      orgId: row.orgId,
      aggregateId: row.id,
      aggregateVersion: row.version,
      type: 'MediaTranscoded',
      payload: { media_id: formatId('media', row.id), variants: variantsOf(row) },
      traceparent: null,
    })
    return true
  })
}

/** Object keys under the names of `variants`: a link is a credential, and expires before most consumers read it. */
const variantsOf = (row: Converted) => ({
  ...variantKeys(row),
  asset_identifier: row.assetIdentifier,
})

/** Fails a conversion: the API still delivers the original, but no partial stream. False when it was over already. */
export function failConversion(db: Database, key: ConversionKey, error: ConversionError, run?: Run): Promise<boolean> {
  return db.inTransaction({}, (tx) => updateFailed(tx, key, error, run))
}

/**
 * Lets an image wait for another batch, because its own failed as a whole. Returns false when the image has left the
 * batch already or its conversion is over.
 */
export function leaveBatch(db: Database, key: ConversionKey, batch: Uuid): Promise<boolean> {
  return db.inTransaction({}, (tx) => updateBatchLeft(tx, key, batch))
}
