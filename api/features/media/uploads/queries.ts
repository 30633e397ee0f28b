import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import { and, asc, count, eq, sql } from '../../../db/orm.ts'
import { purgedMedia } from '../../../db/schema/media.ts'
import { type MergeRefusal, type UploadRow, uploadChunks, uploads } from '../../../db/schema/uploads.ts'
import { isHeld, lockHolds } from '../../../retention/holds-queries.ts'
import { nextLook } from '../../../worker/runs/purge-plan.ts'
import { insertStaging } from './staging-queries.ts'

export const LEASE_SECONDS = 30

/** A session, with the facts that depend on the database's clock. */
export type UploadSession = UploadRow & { pastExpiry: boolean; leaseExpired: boolean }

export type NewUpload = Pick<
  UploadRow,
  | 'id'
  | 'orgId'
  | 'uploaderId'
  | 'mediaId'
  | 'layout'
  | 'multipartId'
  | 'filename'
  | 'mimeType'
  | 'fileSizeBytes'
  | 'chunkSizeBytes'
  | 'totalChunks'
  | 'checksumSha256'
  | 'livePhotoPairId'
  | 'assetIdentifier'
>

/** The session stays open for a day after its last chunk, and for a week in total. */
export async function insertUpload(tx: Tx, row: NewUpload): Promise<void> {
  await tx
    .insert(uploads)
    .values({ ...row, expiresAt: sql`now() + interval '24 hours'`, absoluteExpiresAt: sql`now() + interval '7 days'` })
}

export async function findUpload(
  tx: Tx,
  orgId: Uuid,
  id: Uuid,
  options: { lock?: boolean } = {},
): Promise<UploadSession | undefined> {
  const query = tx
    .select({
      upload: uploads,
      pastExpiry: sql<boolean>`${uploads.expiresAt} <= now()`,
      leaseExpired: sql<boolean>`coalesce(${uploads.mergeLeaseUntil} <= clock_timestamp(), true)`,
    })
    .from(uploads)
    .where(and(eq(uploads.orgId, orgId), eq(uploads.id, id)))
  const [row] = options.lock ? await query.for('update') : await query
  return row && { ...row.upload, pastExpiry: row.pastExpiry, leaseExpired: row.leaseExpired }
}

/**
 * Every chunk passes this check before it is recorded. Returns true while the session is open, and then locks it, so
 * that no merge can begin before the chunk is recorded.
 */
export async function extendOpenUpload(tx: Tx, id: Uuid): Promise<boolean> {
  const { rowCount } = await tx
    .update(uploads)
    .set({ expiresAt: sql`least(now() + interval '24 hours', ${uploads.absoluteExpiresAt})` })
    .where(and(eq(uploads.id, id), eq(uploads.state, 'open'), sql`${uploads.expiresAt} > now()`))
  return rowCount === 1
}

export interface Chunk {
  orgId: Uuid
  uploadId: Uuid
  chunkIndex: number
  sizeBytes: number
  sha256: string
  etag: string
}

/** The last one recorded wins. */
export async function upsertChunk(tx: Tx, chunk: Chunk): Promise<void> {
  const { sizeBytes, sha256, etag } = chunk
  await tx
    .insert(uploadChunks)
    .values(chunk)
    .onConflictDoUpdate({
      target: [uploadChunks.uploadId, uploadChunks.chunkIndex],
      set: { sizeBytes, sha256, etag, receivedAt: sql`now()` },
    })
}

export async function countChunks(tx: Tx, uploadId: Uuid): Promise<number> {
  const [row] = await tx.select({ n: count() }).from(uploadChunks).where(eq(uploadChunks.uploadId, uploadId))
  return row?.n ?? 0
}

/** In order of their index. */
export async function listChunks(tx: Tx, uploadId: Uuid): Promise<Chunk[]> {
  return tx
    .select({
      orgId: uploadChunks.orgId,
      uploadId: uploadChunks.uploadId,
      chunkIndex: uploadChunks.chunkIndex,
      sizeBytes: uploadChunks.sizeBytes,
      sha256: uploadChunks.sha256,
      etag: uploadChunks.etag,
    })
    .from(uploadChunks)
    .where(eq(uploadChunks.uploadId, uploadId))
    .orderBy(asc(uploadChunks.chunkIndex))
}

/** Deletes the record of a chunk that the store does not have as recorded, unless the chunk was sent again since. */
export async function deleteChunk(tx: Tx, chunk: Chunk): Promise<void> {
  const { uploadId, chunkIndex, etag } = chunk
  await tx
    .delete(uploadChunks)
    .where(
      and(eq(uploadChunks.uploadId, uploadId), eq(uploadChunks.chunkIndex, chunkIndex), eq(uploadChunks.etag, etag)),
    )
}

/** Call with the row locked. The session then belongs to the holder until the lease expires. */
export async function startMerge(tx: Tx, id: Uuid, holder: Uuid): Promise<void> {
  await tx
    .update(uploads)
    .set({
      state: 'merging',
      mergeLeaseHolder: holder,
      mergeLeaseUntil: sql`clock_timestamp() + make_interval(secs => ${LEASE_SECONDS})`,
      version: sql`${uploads.version} + 1`,
    })
    .where(eq(uploads.id, id))
}

const heldBy = (id: Uuid, holder: Uuid) =>
  and(eq(uploads.id, id), eq(uploads.state, 'merging'), eq(uploads.mergeLeaseHolder, holder))

/** False when another request has taken over. */
export async function renewLease(tx: Tx, id: Uuid, holder: Uuid): Promise<boolean> {
  const { rowCount } = await tx
    .update(uploads)
    .set({ mergeLeaseUntil: sql`clock_timestamp() + make_interval(secs => ${LEASE_SECONDS})` })
    .where(heldBy(id, holder))
  return rowCount === 1
}

/** Lets the next request take over at once. */
export async function dropLease(tx: Tx, id: Uuid, holder: Uuid): Promise<void> {
  await tx.update(uploads).set({ mergeLeaseUntil: sql`clock_timestamp()` }).where(heldBy(id, holder))
}

/** Ends a merge. False when the holder has lost the lease: then the caller must not act on the merge. */
export async function endMerge(
  tx: Tx,
  id: Uuid,
  holder: Uuid,
  end: { state: 'open' | 'completed' } | { state: 'aborted'; refusal: MergeRefusal },
): Promise<boolean> {
  const { rowCount } = await tx
    .update(uploads)
    .set({ ...end, mergeLeaseHolder: null, mergeLeaseUntil: null, version: sql`${uploads.version} + 1` })
    .where(heldBy(id, holder))
  return rowCount === 1
}

/** Call with the row locked. Changes nothing while a merge is under way, and after the end of the session. */
export async function abortUpload(tx: Tx, id: Uuid): Promise<void> {
  await tx
    .update(uploads)
    .set({ state: 'aborted', mergeLeaseHolder: null, mergeLeaseUntil: null, version: sql`${uploads.version} + 1` })
    .where(sql`${uploads.id} in (select u.id from ${uploads} u where u.id = ${id} and ${isOver})`)
}

/**
 * Aborts all sessions of a user in an organization; housekeeping removes what they have in the store. A merge that is under
 * way is left alone: it finds that its user is no longer permitted to merge, and the session expires.
 */
export async function endUploads(tx: Tx, orgId: Uuid, userId: Uuid): Promise<void> {
  // In the order of ids, each only once the transaction that has locked it is over.
  const { rows } = await tx.execute(sql`select id from ${uploads} u
    where u.org_id = ${orgId} and u.uploader_id = ${userId} and u.state in ('open', 'merging') and ${isOver}
    order by u.id for update`)
  await tx
    .update(uploads)
    .set({ state: 'aborted', mergeLeaseHolder: null, mergeLeaseUntil: null, version: sql`${uploads.version} + 1` })
    .where(sql`${uploads.id} = any(${sql.param(idsOf(rows))}::uuid[])`)
}

/** Ends sessions that had expired at this time, including those whose merge died and was never requested again. */
export async function expireUploadRows(tx: Tx, at: string): Promise<number> {
  // A hold keeps what has arrived: the end of a session is followed by its removal.
  await lockHolds(tx)
  const { rows } =
    await tx.execute(sql`select id from ${uploads} u where u.expires_at <= least(now(), ${at}::timestamptz) and ${isOver}
    and not ${isUploadHeld} for update skip locked`)
  return endExpired(tx, idsOf(rows))
}

/** No chunk and no merge is accepted any more. */
export const isOver = sql`(u.state = 'open' or (u.state = 'merging' and u.merge_lease_until <= clock_timestamp()))`
/** The hold on an upload `u`. Its event is not known before the media item is there. */
const isRowHeld = isHeld({ person: sql`u.uploader_id`, organization: sql`u.org_id` })
/** Whether it keeps what the upload has in the store: what was merged is there once more, with its media item. */
export const isUploadHeld = sql<boolean>`(u.state <> 'completed' and ${isRowHeld})`
const idsOf = (rows: readonly Record<string, unknown>[]) => rows.map(({ id }) => id as Uuid)

/** Ends expired sessions. Call with the rows locked. */
export async function endExpired(tx: Tx, ids: readonly Uuid[]): Promise<number> {
  const { rowCount } = await tx
    .update(uploads)
    .set({ state: 'expired', mergeLeaseHolder: null, mergeLeaseUntil: null, version: sql`${uploads.version} + 1` })
    .where(sql`${uploads.id} = any(${sql.param([...ids])}::uuid[])`)
  return rowCount ?? 0
}

/** Ended sessions that may still have objects in the store. */
export async function listUnreleased(tx: Tx, limit: number): Promise<UploadRow[]> {
  return (
    tx
      .select()
      .from(uploads)
      .where(
        sql`${uploads.state} in ('completed', 'aborted', 'expired') and ${uploads.storageReleasedAt} is null
          and ${uploads.leaseAt} <= now() and not (${uploads.state} <> 'completed'
            and ${isHeld({ person: sql`uploads.uploader_id`, organization: sql`uploads.org_id` })})`,
      )
      // Not by age: a hundred that cannot be cleaned up must not hide the others forever.
      .orderBy(sql`random()`)
      .limit(limit)
  )
}

/** Over, and kept by a hold, with an upload to the store that may not have been completed. */
const isKeptInParts = sql`(u.multipart_id is not null and u.storage_released_at is null and ${isUploadHeld}
  and (u.state in ('aborted', 'expired') or (u.expires_at <= now() and ${isOver})))`

export async function listHeldParts(tx: Tx, limit: number): Promise<Uuid[]> {
  const { rows } = await tx.execute(
    sql`select u.id from ${uploads} u where ${isKeptInParts} order by random() limit ${limit}`,
  )
  return idsOf(rows)
}

export type HeldUpload = Pick<UploadRow, 'id' | 'orgId' | 'mediaId'> & { multipartId: string }

/**
 * Ends a session that is over, so that no merge takes over what its parts become: a part that was sent again during a merge
 * is not the recorded one. Undefined when a merge has taken over, or nothing has to be kept any more.
 */
export async function endHeldParts(tx: Tx, id: Uuid): Promise<HeldUpload | undefined> {
  const { rows } = await tx.execute<HeldUpload & { isEnded: boolean } & Record<string, unknown>>(sql`
    select u.id, u.org_id as "orgId", u.media_id as "mediaId", u.multipart_id as "multipartId",
      u.state in ('aborted', 'expired') as "isEnded"
    from ${uploads} u where u.id = ${id} and ${isKeptInParts} for update`)
  const [upload] = rows
  if (upload && !upload.isEnded) await endExpired(tx, [id])
  return upload
}

/** The upload to the store has become an object. */
export async function forgetMultipart(tx: Tx, id: Uuid): Promise<void> {
  await tx.update(uploads).set({ multipartId: null }).where(eq(uploads.id, id))
}

/** Whether a hold keeps what an upload session has in the store. */
export async function isUploadKept(tx: Tx, id: Uuid): Promise<boolean> {
  const { rows } = await tx.execute<{ held: boolean }>(
    sql`select ${isUploadHeld} as held from ${uploads} u where u.id = ${id}`,
  )
  return rows[0]?.held ?? false
}

/** The same for housekeeping, unless a hold came meanwhile. */
export async function markReleasedUnlessHeld(tx: Tx, upload: Released): Promise<void> {
  await lockHolds(tx)
  if (!(await isUploadKept(tx, upload.id))) await markReleased(tx, upload)
}

export type Released = Pick<UploadRow, 'id' | 'orgId' | 'layout'>

/**
 * Records that an ended session has nothing in the store any more, and forgets its chunks. Ends the lease of a run. A merge
 * that has lost its lease may still complete the object: housekeeping looks at the place again, as after a purge.
 */
export async function markReleased(tx: Tx, upload: Released): Promise<void> {
  await tx.update(uploads).set({ storageReleasedAt: sql`now()`, leaseToken: null }).where(eq(uploads.id, upload.id))
  await tx.delete(uploadChunks).where(eq(uploadChunks.uploadId, upload.id))
  await tx.execute(sql`insert into ${purgedMedia} (media_id, org_id, next_look_at)
    select media_id, org_id, now() + make_interval(secs => ${nextLook(0)?.inSeconds ?? 0}) from ${uploads}
    where id = ${upload.id} and state <> 'completed' on conflict do nothing`)
  if (upload.layout === 'staged') await insertStaging(tx, upload, nextLook(0)?.inSeconds ?? 0)
}

/** Deletes ended sessions that have stored nothing for a week, the longest first, but for those under a hold. Returns how many. */
export async function deleteOldUploads(tx: Tx, limit: number): Promise<number> {
  await lockHolds(tx)
  // Materialized, FOR UPDATE runs once; as a subquery it could run per row and lock more than `limit`.
  const { rowCount } = await tx.execute(sql`
    with old as materialized (
      select u.id from ${uploads} u where u.storage_released_at <= now() - interval '7 days' and not ${isRowHeld}
      order by u.storage_released_at limit ${limit} for update skip locked)
    delete from ${uploads} where id in (select id from old)`)
  return rowCount ?? 0
}
