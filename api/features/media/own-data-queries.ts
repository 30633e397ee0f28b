import type { Uuid } from '../../../lib/contract/ids.ts'
import { type OriginalTier, originalKeyIn } from '../../../lib/contract/object-keys.ts'
import type { Tx } from '../../db/db.ts'
import { and, inArray, isNull, sql } from '../../db/orm.ts'
import { media } from '../../db/schema/media.ts'
import { belongsTo } from '../../personal/queries.ts'
import { FIRST_ID, type OwnFile, type OwnPage, type OwnRow, timeOf } from '../../requests/own-data.ts'

/** Those in the trash too, until they are purged. */
export async function ownMedia(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnRow[]> {
  const { rows } = await tx.execute<OwnRow>(sql`
    select id as key, id as media_id, org_id, original_filename as filename, mime_type, file_size_bytes::float8 as bytes,
      sha256, taken_at, created_at, paired_media_id, deleted_at
    from media where uploader_id = ${userId} and purging_at is null and id > ${after ?? FIRST_ID}::uuid
    order by id limit ${limit}`)
  return rows
}

interface FileColumns extends Record<string, unknown> {
  id: Uuid
  org_id: Uuid
  filename: string
  mime_type: string
  bytes: number
  original_tier: OriginalTier
  taken_at: string
  event_title: string | null
  event_start: string | null
}

export async function ownFiles(tx: Tx, { userId, after, limit }: OwnPage): Promise<OwnFile[]> {
  const { rows } = await tx.execute<FileColumns>(sql`
    select m.id, m.org_id, m.original_filename as filename, m.mime_type, m.file_size_bytes::float8 as bytes, m.original_tier, m.taken_at,
      told.title as event_title, told.start_at as event_start
    from media m left join lateral (
      select e.title, e.start_at from album_media i join albums a on a.id = i.album_id join events e on e.id = a.event_id
      where i.media_id = m.id and i.added_by = ${userId}
        and ${belongsTo(sql`e.org_id`, sql`e.id`, userId)}
      order by i.added_at, i.album_id limit 1) told on true
    where m.uploader_id = ${userId} and m.deleted_at is null and m.id > ${after ?? FIRST_ID}::uuid
    order by m.id limit ${limit}`)
  return rows.map((row) => ({
    mediaId: row.id,
    orgId: row.org_id,
    key: originalKeyIn(row.original_tier, row.org_id, row.id),
    filename: row.filename,
    mimeType: row.mime_type,
    bytes: row.bytes,
    takenAt: timeOf(row.taken_at),
    event:
      row.event_title === null || row.event_start === null
        ? undefined
        : { title: row.event_title, startAt: timeOf(row.event_start) },
  }))
}

export async function findOriginalKeys(tx: Tx, ids: readonly Uuid[]): Promise<Map<Uuid, string>> {
  const rows = await tx
    .select({ id: media.id, orgId: media.orgId, tier: media.originalTier })
    .from(media)
    .where(inArray(media.id, [...ids]))
  return new Map(rows.map(({ id, orgId, tier }) => [id, originalKeyIn(tier, orgId, id)]))
}

export async function findKeptMedia(tx: Tx, ids: readonly Uuid[]): Promise<Uuid[]> {
  const rows = await tx
    .select({ id: media.id })
    .from(media)
    .where(and(inArray(media.id, [...ids]), isNull(media.deletedAt)))
  return rows.map(({ id }) => id)
}
