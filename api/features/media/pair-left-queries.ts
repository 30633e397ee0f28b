import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, asc, eq, gt, isNotNull, isNull, or, type SQL, sql } from '../../db/orm.ts'
import { type MediaRow, media } from '../../db/schema/media.ts'

const isUnpaired = and(isNull(media.pairedMediaId), isNull(media.deletedAt))

/** An unpaired image of the same uploader. Each look-up has an index. */
const hasImage = (keys: SQL) => sql`exists (select from media i
  where i.org_id = ${media}.org_id and i.uploader_id = ${media}.uploader_id and i.kind = 'image'
    and i.paired_media_id is null and i.deleted_at is null and ${keys})`

/** Unpaired videos whose image exists, in order of id. */
export async function listLeftVideos(tx: Tx, o: { after: Uuid | undefined; limit: number }): Promise<Uuid[]> {
  const rows = await tx
    .select({ id: media.id })
    .from(media)
    .where(
      and(
        eq(media.kind, 'video'),
        isUnpaired,
        or(isNotNull(media.livePhotoPairId), isNotNull(media.assetIdentifier)),
        or(
          hasImage(sql`i.live_photo_pair_id = ${media}.live_photo_pair_id`),
          hasImage(sql`i.asset_identifier = ${media}.asset_identifier
            and coalesce(i.live_photo_pair_id = ${media}.live_photo_pair_id, true)`),
        ),
        o.after === undefined ? undefined : gt(media.id, o.after),
      ),
    )
    .orderBy(asc(media.id))
    .limit(o.limit)
  return rows.map(({ id }) => id)
}

/** A media item that is unpaired and not deleted. Not locked: call `lockPairing` before the row. */
export async function findHalf(tx: Tx, id: Uuid): Promise<MediaRow | undefined> {
  const [row] = await tx
    .select()
    .from(media)
    .where(and(eq(media.id, id), isUnpaired))
  return row
}

/** The same, locked. */
export async function lockHalf(tx: Tx, id: Uuid): Promise<MediaRow | undefined> {
  const [row] = await tx
    .select()
    .from(media)
    .where(and(eq(media.id, id), isUnpaired))
    .for('update')
  return row
}
