import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import { sql } from '../../../db/orm.ts'
import { albumMedia } from '../../../db/schema/albums.ts'
import { media, purgedMedia } from '../../../db/schema/media.ts'
import { organizations } from '../../../db/schema/organizations.ts'
import { type UploadRow, uploads } from '../../../db/schema/uploads.ts'
import { change, recordResources } from '../../../personal/queries.ts'
import type { ClaimOptions } from '../../../retention/target.ts'
import { type Claims, claimFree } from './purge-queries.ts'

interface Whose {
  erasureId: Uuid
  userId: Uuid
}

/** Ids of media items of the user, through the index of an organization's uploaders. */
const mediaOf = (userId: Uuid, more: ReturnType<typeof sql>, limit: number) => sql`
  select m.id from ${organizations} o cross join lateral (
    select id from ${media} where org_id = o.id and uploader_id = ${userId} and ${more}
      order by created_at desc, id desc limit ${limit}) m
  limit ${limit}`

/**
 * Hides media items of the user at once, whether or not they are in the trash: from the commit on no one sees, restores or
 * uses them. Returns how many; call again until there are none.
 */
export async function withdrawMedia(tx: Tx, { erasureId, userId }: Whose, limit: number): Promise<number> {
  // The purge of an event may put back what it has taken out: not what an erasure has taken since.
  const isLeft = sql`(purging_at is null or leaving_with is not null)`
  const { rows } = await tx.execute<{ id: Uuid }>(sql`select id from ${media}
    where id in (${mediaOf(userId, isLeft, limit)}) order by id for update`)
  const ids = sql`any(${sql.param(rows.map(({ id }) => id))}::uuid[])`
  // Their places in albums, in the order of migration 0012: the trigger takes them row by row.
  await tx.execute(sql`select from ${albumMedia} where media_id = ${ids} order by media_id, album_id for update`)
  await recordResources(tx, erasureId, 'media', sql`select id, org_id from ${media} where id = ${ids}`)
  await tx.execute(sql`update ${media} set deleted_at = coalesce(deleted_at, now()), deleted_by = coalesce(deleted_by, uploader_id),
    purging_at = now(), leaving_with = null, version = version + 1, updated_at = now() where id = ${ids} and ${isLeft}`)
  return rows.length
}

/**
 * Claims withdrawn media items of one person, whatever their age, as `claimDueOf` claims those whose time is over. Both
 * halves of a Live Photo are of one uploader. Also what a run has postponed, which has no token: the hold may have ended, and
 * what the store still refuses fails again.
 */
export async function claimOf(tx: Tx, userId: Uuid, o: ClaimOptions): Promise<Claims> {
  const isFree = sql`purging_at is not null and (lease_at <= now() or lease_token is null)`
  const { rows } = await tx.execute<{ id: Uuid; counterpart: Uuid | null }>(sql`
    select id, paired_media_id as counterpart from ${media}
    where id in (${mediaOf(userId, sql`${isFree} and not (kind = 'video' and paired_media_id is not null)`, o.limit)})
    for update skip locked`)
  return claimFree(tx, rows, o, sql`(m.lease_at <= now() or m.lease_token is null)`)
}

export async function countMediaOf(tx: Tx, userId: Uuid): Promise<number> {
  const { rows } = await tx.execute<{ n: number }>(sql`
    select coalesce(sum(n), 0)::int as n from ${organizations} o cross join lateral (
      select count(*) as n from ${media} where org_id = o.id and uploader_id = ${userId}) m`)
  return rows[0]?.n ?? 0
}

/** Those of these media items that are still being converted for others. */
export async function countConverting(tx: Tx, ids: readonly Uuid[]): Promise<number> {
  const { rows } = await tx.execute<{ n: number }>(sql`select count(*)::int as n from ${media}
    where id = any(${sql.param([...ids])}::uuid[]) and upload_status = 'processing' and deleted_at is null`)
  return rows[0]?.n ?? 0
}

/** Ends upload sessions of the user, open or not: no chunk and no merge is accepted any more. Any order: one user's. */
export async function endUploads(tx: Tx, { erasureId, userId }: Whose, limit: number): Promise<UploadRow[]> {
  const { rows } = await tx.execute<{ id: Uuid }>(sql`select id from ${uploads} where uploader_id = ${userId}
    order by id limit ${limit} for update`)
  const ids = sql`any(${sql.param(rows.map(({ id }) => id))}::uuid[])`
  await recordResources(tx, erasureId, 'upload', sql`select id, org_id from ${uploads} where id = ${ids}`)
  await tx.execute(sql`update ${uploads} set state = 'aborted', merge_lease_holder = null, merge_lease_until = null
    where id = ${ids} and state in ('open', 'merging')`)
  return tx.select().from(uploads).where(sql`${uploads.id} = ${ids}`)
}

/**
 * Deletes an ended session. A request that is still merging may complete the object after it was removed: housekeeping
 * looks at the place again, as after a purge.
 */
export async function forgetUpload(tx: Tx, { id, orgId, mediaId }: UploadRow): Promise<void> {
  await tx.execute(sql`insert into ${purgedMedia} (media_id, org_id, next_look_at)
    select ${mediaId}, ${orgId}, now() + interval '10 minutes'
    where not exists (select from ${media} where id = ${mediaId}) on conflict do nothing`)
  await change(tx, sql`delete from ${uploads} where id = ${id}`)
}
