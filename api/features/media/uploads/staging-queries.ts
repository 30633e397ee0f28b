import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import { asc, eq, inArray, sql } from '../../../db/orm.ts'
import { releasedStaging, type UploadRow } from '../../../db/schema/uploads.ts'

/** Has housekeeping look again where the chunks of an ended session were. A session that was released twice has one entry. */
export async function insertStaging(
  tx: Tx,
  { id, orgId }: Pick<UploadRow, 'id' | 'orgId'>,
  inSeconds: number,
): Promise<void> {
  await tx
    .insert(releasedStaging)
    .values({ uploadId: id, orgId, nextLookAt: sql`now() + make_interval(secs => ${inSeconds})` })
    .onConflictDoNothing()
}

/** Claims sessions at whose prefix it is time to look again. */
export async function claimStaging(tx: Tx, o: { limit: number; leaseSeconds: number }) {
  // A common table expression with FOR UPDATE runs once; as a subquery it could run per row and lock more than `limit`.
  const due = tx
    .$with('due')
    .as(
      tx
        .select({ uploadId: releasedStaging.uploadId })
        .from(releasedStaging)
        .where(sql`${releasedStaging.nextLookAt} <= now()`)
        .orderBy(asc(releasedStaging.nextLookAt))
        .limit(o.limit)
        .for('update', { skipLocked: true }),
    )
  return tx
    .with(due)
    .update(releasedStaging)
    .set({ nextLookAt: sql`now() + make_interval(secs => ${o.leaseSeconds})` })
    .where(inArray(releasedStaging.uploadId, sql`(select upload_id from ${due})`))
    .returning({ uploadId: releasedStaging.uploadId, orgId: releasedStaging.orgId, looks: releasedStaging.looks })
}

/** `next` undefined: the last look is over. */
export async function recordStaging(
  tx: Tx,
  uploadId: Uuid,
  next: { looks: number; inSeconds: number } | undefined,
): Promise<void> {
  const isThis = eq(releasedStaging.uploadId, uploadId)
  if (!next) return void (await tx.delete(releasedStaging).where(isThis))
  const nextLookAt = sql`now() + make_interval(secs => ${next.inSeconds})`
  await tx.update(releasedStaging).set({ looks: next.looks, nextLookAt }).where(isThis)
}
