import { sql } from '../../../db/orm.ts'
import { media } from '../../../db/schema/media.ts'
import type { Line } from '../../../worker/runs/admission-queries.ts'
import { BYTES_PER_POD, mostPods, type ParallelismLimits } from './parallelism.ts'

const unfinished = sql`kind = 'video' and upload_status = 'processing' and deleted_at is null`

/** The indexes media_admitted and media_waiting. */
export const VIDEOS: Line = {
  table: media,
  isAdmitted: sql`${unfinished} and conversion_admitted_at is not null`,
  isWaiting: sql`${unfinished} and conversion_admitted_at is null`,
}

/** The same, where each pod of a video takes a slot: as many as `parallelismOf` says. */
export function videosWith(limits: ParallelismLimits): Line {
  const most = mostPods(limits)
  if (most === 1) return VIDEOS
  return { ...VIDEOS, slots: sql`least(1 + file_size_bytes / ${sql.raw(String(BYTES_PER_POD))}, ${most}::int)` }
}
