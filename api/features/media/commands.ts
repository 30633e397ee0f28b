import { formatId, type Uuid } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { type AuditDetails, insertAudit } from '../../audit/queries.ts'
import type { Database, Tx } from '../../db/db.ts'
import type { MediaRow } from '../../db/schema/media.ts'
import type { Change } from '../../requests/change.ts'
import { pair } from './pairing.ts'
import { lockPairing } from './pairing-queries.ts'
import {
  findHalf,
  findStatus,
  insertMedia,
  type NewMedia,
  type PairedHalf,
  readNow,
  restartConversion,
  restartFailedFor,
} from './queries.ts'

/** Creates a media item: its row, its pairing, its events and its audit entry, all or none. */
export async function recordMedia(change: Change, row: NewMedia): Promise<MediaRow> {
  const { tx, announce, audit } = change
  await lockPairing(tx, row)
  const made = await insertMedia(tx, row)
  if (!made) throw pairTaken(row.kind, await findHalf(tx, row))
  await announce('MediaUploaded', made, {
    media_id: row.id,
    org_id: row.orgId,
    uploader_id: row.uploaderId,
    filename: row.originalFilename,
    mime_type: row.mimeType,
    file_size: row.fileSizeBytes,
  })
  await audit('MEDIA_UPLOAD', made, { mime_type: row.mimeType, file_size_bytes: row.fileSizeBytes })
  return pair(change, made)
}

/**
 * Throws if the uploader has a media item of this kind with the same `live_photo_pair_id`. Called before the bytes arrive,
 * which would come in vain; `recordMedia` decides.
 */
export async function requireFreePair(tx: Tx, half: PairedHalf): Promise<void> {
  const taken = half.livePhotoPairId === null ? undefined : await findHalf(tx, half)
  if (taken) throw pairTaken(half.kind, taken)
}

/** `id`: of the other media item, which the uploader may see. It is gone if it was deleted at this moment. */
function pairTaken(kind: string, id: Uuid | undefined): Problem {
  const other = id && { media_id: formatId('media', id) }
  return new Problem('CONFLICT', `Another ${kind} has this live_photo_pair_id`, {
    details: [{ field: 'body.live_photo_pair_id', issue: 'pairs one image with one video', ...other }],
  })
}

/**
 * For administrators, as keepsake_worker: queues the failed conversion of a media item again, and that of the other half
 * of a Live Photo; or the first conversion of an image that an earlier version did not convert. It starts as soon as the
 * organization has a slot; a trigger wakes the worker.
 */
export function retryMedia(db: Database, id: Uuid): Promise<Restarted[]> {
  return db.inTransaction({}, async (tx) => {
    const restarted = await restartConversion(tx, id)
    if (restarted.length === 0) {
      const status = await findStatus(tx, id)
      if (!status) throw new Problem('NOT_FOUND', 'There is no such media item')
      throw new Problem('INVALID_STATE_TRANSITION', `Only a failed conversion can be retried; this one is ${status}`)
    }
    await auditRetries(tx, restarted, {})
    return restarted
  })
}

interface Restarted {
  id: Uuid
  orgId: Uuid
  generation: number
}
const RETRIED_AT_ONCE = 100

/**
 * Queues all conversions again that failed for one reason before now: one that fails again meanwhile is not repeated.
 * Each batch is a transaction, so a command that is interrupted can be given again.
 */
export async function retryFailed(db: Database, reason: string): Promise<number> {
  const before = await db.read({}, readNow)
  for (let retried = 0; ; ) {
    const restarted = await db.inTransaction({}, async (tx) => {
      const rows = await restartFailedFor(tx, { reason, before, limit: RETRIED_AT_ONCE })
      await auditRetries(tx, rows, { reason })
      return rows
    })
    if (restarted.length === 0) return retried
    retried += restarted.length
  }
}

async function auditRetries(tx: Tx, rows: readonly Restarted[], details: AuditDetails): Promise<void> {
  for (const { id, orgId, generation } of rows) {
    await insertAudit(tx, {
      orgId,
      actorId: null,
      action: 'ADMIN_ACTION',
      resourceType: 'media',
      resourceId: id,
      result: 'success',
      context: null,
      details: { operation: 'retry conversion', generation, ...details },
    })
  }
}
