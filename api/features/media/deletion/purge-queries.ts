import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import { and, asc, eq, inArray, isNotNull, sql } from '../../../db/orm.ts'
import { type MediaRow, media, purgedMedia } from '../../../db/schema/media.ts'
import { PURGE_AFTER_HOURS } from './plan.ts'

export type PurgedRow = Pick<MediaRow, 'id' | 'orgId' | 'version'>

const isDue = sql`${media.deletedAt} <= now() - make_interval(hours => ${PURGE_AFTER_HOURS})
  and coalesce(${media.purgeLeaseUntil} <= now(), true)`

/**
 * Claims media items whose time in the trash is over, the longest first, and those whose worker has died. Both halves of
 * a Live Photo are claimed, or neither. From the commit on they cannot be restored.
 */
export async function claimDue(tx: Tx, o: { limit: number; leaseSeconds: number }): Promise<Uuid[][]> {
  const due = await tx
    .select({ id: media.id, counterpart: media.pairedMediaId })
    .from(media)
    // Both halves were deleted in one transaction. The image stands for them.
    .where(sql`${isDue} and not (${media.kind} = 'video' and ${media.pairedMediaId} is not null)`)
    .orderBy(asc(media.deletedAt), asc(media.id))
    .limit(o.limit)
  const groups = due.map(({ id, counterpart }) => (counterpart === null ? [id] : [id, counterpart]))
  if (groups.length === 0) return []
  const free = await tx
    .select({ id: media.id })
    .from(media)
    .where(and(inArray(media.id, groups.flat()), isDue))
    // The order in which every transaction locks the halves of a Live Photo.
    .orderBy(asc(media.id))
    .for('update', { skipLocked: true })
  const locked = new Set(free.map(({ id }) => id))
  const claimed = groups.filter((ids) => ids.every((id) => locked.has(id)))
  if (claimed.length > 0) await setLease(tx, claimed.flat(), o.leaseSeconds)
  return claimed
}

async function setLease(tx: Tx, ids: readonly Uuid[], seconds: number): Promise<void> {
  await tx
    .update(media)
    .set({
      purgingAt: sql`coalesce(${media.purgingAt}, now())`,
      purgeLeaseUntil: sql`now() + make_interval(secs => ${seconds})`,
    })
    .where(inArray(media.id, [...ids]))
}

/** The prefixes to empty. A row that another worker has purged is missing. */
export async function findPurging(tx: Tx, ids: readonly Uuid[]): Promise<PurgedRow[]> {
  return tx
    .select({ id: media.id, orgId: media.orgId, version: media.version })
    .from(media)
    .where(and(inArray(media.id, [...ids]), isNotNull(media.purgingAt)))
    .orderBy(asc(media.id))
    .for('update')
}

/** One statement: the halves of a Live Photo refer to each other. Call with the rows locked. */
export async function deletePurged(tx: Tx, rows: readonly PurgedRow[], firstLookSeconds: number): Promise<void> {
  await tx.delete(media).where(
    inArray(
      media.id,
      rows.map(({ id }) => id),
    ),
  )
  await tx.insert(purgedMedia).values(
    rows.map(({ id, orgId }) => ({
      mediaId: id,
      orgId,
      nextLookAt: sql`now() + make_interval(secs => ${firstLookSeconds})`,
    })),
  )
}

/** How long the oldest media item has been due for its purge, in seconds; 0 when none is. */
export async function oldestPurgeSeconds(tx: Tx): Promise<number> {
  const { rows } = await tx.execute<{ seconds: number }>(sql`
    select greatest(0, coalesce(extract(epoch from now() - min(deleted_at)) - ${PURGE_AFTER_HOURS}::int * 3600, 0))::float8
      as seconds
    from ${media} where deleted_at is not null`)
  return rows[0]?.seconds ?? 0
}

/** Claims purged media items at whose prefix it is time to look again. */
export async function claimLooks(tx: Tx, o: { limit: number; leaseSeconds: number }) {
  // A common table expression with FOR UPDATE runs once; as a subquery it could run per row and lock more than `limit`.
  const due = tx
    .$with('due')
    .as(
      tx
        .select({ mediaId: purgedMedia.mediaId })
        .from(purgedMedia)
        .where(sql`${purgedMedia.nextLookAt} <= now()`)
        .orderBy(asc(purgedMedia.nextLookAt))
        .limit(o.limit)
        .for('update', { skipLocked: true }),
    )
  return tx
    .with(due)
    .update(purgedMedia)
    .set({ nextLookAt: sql`now() + make_interval(secs => ${o.leaseSeconds})` })
    .where(inArray(purgedMedia.mediaId, sql`(select media_id from ${due})`))
    .returning({ mediaId: purgedMedia.mediaId, orgId: purgedMedia.orgId, looks: purgedMedia.looks })
}

export async function recordLook(tx: Tx, mediaId: Uuid, next: { looks: number; inSeconds: number }): Promise<void> {
  await tx
    .update(purgedMedia)
    .set({ looks: next.looks, nextLookAt: sql`now() + make_interval(secs => ${next.inSeconds})` })
    .where(eq(purgedMedia.mediaId, mediaId))
}

export async function forgetPurged(tx: Tx, mediaId: Uuid): Promise<void> {
  await tx.delete(purgedMedia).where(eq(purgedMedia.mediaId, mediaId))
}
