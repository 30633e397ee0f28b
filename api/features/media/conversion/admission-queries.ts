import { sql } from '../../../db/orm.ts'
import { media } from '../../../db/schema/media.ts'
import type { Line } from '../../../worker/runs/admission-queries.ts'

const unfinished = sql`kind = 'video' and upload_status = 'processing' and deleted_at is null`

/** The indexes media_admitted and media_waiting. */
export const VIDEOS: Line = {
  table: media,
  isAdmitted: sql`${unfinished} and conversion_admitted_at is not null`,
  isWaiting: sql`${unfinished} and conversion_admitted_at is null`,
}
