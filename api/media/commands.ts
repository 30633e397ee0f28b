import { formatId, type Uuid } from '../../lib/contract/ids.ts'
import { Problem } from '../../lib/contract/problem.ts'
import { insertAudit } from '../audit/queries.ts'
import type { Database } from '../db/db.ts'
import type { MediaRow } from '../db/schema/media.ts'
import type { Change } from '../http/in-organization.ts'
import { findStatus, insertMedia, type NewMedia, restartConversion } from './queries.ts'

/** Creates a media item: its row, its event and its audit entry, all or none. */
export async function recordMedia({ tx, announce, audit }: Change, row: NewMedia): Promise<MediaRow> {
  const made = await insertMedia(tx, row)
  if (!made) {
    throw new Problem('CONFLICT', `A ${row.kind} with this live_photo_pair_id already exists`, {
      details: [{ field: 'body.live_photo_pair_id', issue: 'pairs one image with one video' }],
    })
  }
  await announce('MediaUploaded', made, {
    media_id: formatId('media', row.id),
    org_id: formatId('organization', row.orgId),
    uploader_id: formatId('user', row.uploaderId),
    filename: row.originalFilename,
    mime_type: row.mimeType,
    file_size: row.fileSizeBytes,
  })
  await audit('MEDIA_UPLOAD', made, { mime_type: row.mimeType, file_size_bytes: row.fileSizeBytes })
  return made
}

/**
 * For administrators, as keepsake_worker: queues the failed conversion of a media item again, or the first one of an
 * image that an earlier version did not convert. It starts as soon as the organization has a slot; a trigger wakes the
 * worker.
 */
export function retryMedia(db: Database, id: Uuid): Promise<{ generation: number }> {
  return db.inTransaction({}, async (tx) => {
    const restarted = await restartConversion(tx, id)
    if (!restarted) {
      const status = await findStatus(tx, id)
      if (!status) throw new Problem('NOT_FOUND', 'There is no such media item')
      throw new Problem('INVALID_STATE_TRANSITION', `Only a failed conversion can be retried; this one is ${status}`)
    }
    await insertAudit(tx, {
      orgId: restarted.orgId,
      actorId: null,
      action: 'ADMIN_ACTION',
      resourceType: 'media',
      resourceId: id,
      result: 'success',
      context: null,
      details: { operation: 'retry conversion', generation: restarted.generation },
    })
    return { generation: restarted.generation }
  })
}
