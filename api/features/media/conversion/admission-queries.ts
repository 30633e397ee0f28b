import { inArray, sql } from 'drizzle-orm'
import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import { media } from '../../../db/schema/media.ts'
import type { Line } from '../../../worker/admission-queries.ts'

const unfinished = sql`kind = 'video' and upload_status = 'processing' and deleted_at is null`

/** The indexes media_admitted and media_waiting. */
export const VIDEOS: Line = {
  table: media,
  isAdmitted: sql`${unfinished} and conversion_admitted_at is not null`,
  isWaiting: sql`${unfinished} and conversion_admitted_at is null`,
}

/** `updated_at` moves too: the sweep counts its deadlines from the admission and not from the upload. */
export async function admitVideos(tx: Tx, ids: readonly Uuid[]): Promise<void> {
  await tx
    .update(media)
    .set({ conversionAdmittedAt: sql`now()`, updatedAt: sql`now()` })
    .where(inArray(media.id, [...ids]))
}
