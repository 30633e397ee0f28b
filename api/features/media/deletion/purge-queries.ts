import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import { inArray, type SQL, sql } from '../../../db/orm.ts'
import { albumMedia, albums } from '../../../db/schema/albums.ts'
import { commentMedia, comments, commentVersions } from '../../../db/schema/comments.ts'
import { events } from '../../../db/schema/events.ts'
import { type MediaRow, media, purgedMedia } from '../../../db/schema/media.ts'
import { legalHolds } from '../../../db/schema/retention.ts'
import { HELD_SECONDS, isHeld, lockHolds } from '../../../retention/holds-queries.ts'
import { lease, postpone } from '../../../retention/leases-queries.ts'
import { constantTime, cutoffOf } from '../../../retention/policies-queries.ts'
import type { ClaimOptions, Due, ReportLine, Swept } from '../../../retention/target.ts'
import { DEFAULT_RESTORE, PURGE_GRACE } from './plan.ts'
import { restorableSince } from './window-queries.ts'

export const MEDIA_LEASES = { table: media, id: media.id }
/** Where pods may write after a purge, and merges after the end of their upload. */
export const PURGED_LOOKS = { table: purgedMedia, id: purgedMedia.mediaId }

/** Media items that one process purges: one, or both halves of a Live Photo. */
export interface Claimed {
  ids: Uuid[]
  token: Uuid
  /** By what they are due, if by their time in the trash. Unset: their purge has begun already. */
  due?: Due
}

export type PurgedRow = Pick<MediaRow, 'id' | 'orgId' | 'version'> & { isHeld: boolean }

/** Deleted before this time, a media item is due, as people are told. */
const dueByNow = sql`${restorableSince} - ${PURGE_GRACE}::interval`
const dueBy = (due: Due) => sql`${cutoffOf(due, 'MediaTrash', DEFAULT_RESTORE)} - ${PURGE_GRACE}::interval`

/** Both halves of a Live Photo were deleted in one transaction. The image stands for them. */
const standsForItself = sql`not (m.kind = 'video' and m.paired_media_id is not null)`

/** What the purge of an event has taken out of the library is that purge's, however long it takes, while there is the event. */
const isOfTrash = sql`(m.leaving_with is null or not exists (select from ${events} e where e.id = m.leaving_with))`

/** Of earlier versions of comments in a held event. Without a reference to `m`, so that a statement reads them once. */
const editedAway = sql`select unnest(v.media_ids) from ${legalHolds} h join ${comments} c on c.event_id = h.subject
  join ${commentVersions} v on v.comment_id = c.id where h.kind = 'event' and h.released_at is null`

/** The hold on a media item `m`: on its uploader, its organization, or an event that it belongs to: also one in which
 * an edit of a comment has removed it. */
export const isMediaHeld = sql<boolean>`(${isHeld({
  person: sql`m.uploader_id`,
  organization: sql`m.org_id`,
  event: (id) => sql`(exists (select from ${albumMedia} am join ${albums} al on al.id = am.album_id
      where am.media_id = m.id and al.event_id = ${id})
    or exists (select from ${commentMedia} cm where cm.media_id = m.id and cm.event_id = ${id}))`,
})} or m.id in (${editedAway}))`

export interface Claims {
  groups: Uuid[][]
  held: number
}

/**
 * Claims media items whose time in the trash is over, the longest first, and those whose process has died. Both halves of a
 * Live Photo are claimed, or neither. Nothing but `beginPurge` keeps them from being restored: a process that ends before has
 * taken nothing from anyone. What is under a hold is looked at again later.
 */
export async function claimDueOf(tx: Tx, due: Due, o: ClaimOptions): Promise<Claims> {
  // In the order of the index alone. Locked in it, too: what skips locked rows waits for no one, so any order will do.
  const { rows } = await tx.execute<{ id: Uuid; counterpart: Uuid | null }>(sql`
    select m.id, m.paired_media_id as counterpart from ${media} m
    where m.deleted_at is not null and m.deleted_at <= ${dueBy(due)} and m.lease_at <= now() and ${standsForItself}
      and ${isOfTrash}
    order by m.deleted_at, m.lease_at limit ${o.limit} for update skip locked`)
  return claimFree(tx, rows, o)
}

/** Leases those of these locked media items that are not held, with their counterparts. `isFree` is about the leases of `m`. */
export async function claimFree(
  tx: Tx,
  rows: readonly { id: Uuid; counterpart: Uuid | null }[],
  o: ClaimOptions,
  isFree: SQL = sql`m.lease_at <= now()`,
): Promise<Claims> {
  const groups = rows.map(({ id, counterpart }) => (counterpart === null ? [id] : [id, counterpart]))
  if (groups.length === 0) return { groups, held: 0 }
  const locked = await tx.execute<{ id: Uuid; held: boolean }>(sql`
    select m.id, ${isMediaHeld} as held from ${media} m
    where m.id = any(${sql.param(groups.flat())}::uuid[]) and ${isFree} and m.deleted_at is not null
    order by m.id for update skip locked`)
  const heldById = new Map(locked.rows.map(({ id, held }) => [id, held]))
  const whole = groups.filter((ids) => ids.every((id) => heldById.has(id)))
  const held = whole.filter((ids) => ids.some((id) => heldById.get(id)))
  const claimed = whole.filter((ids) => !held.includes(ids))
  if (claimed.length > 0) await lease(tx, MEDIA_LEASES, claimed.flat(), o)
  if (held.length > 0) await postpone(tx, MEDIA_LEASES, held.flat(), { until: { seconds: HELD_SECONDS } })
  return { groups: claimed, held: held.length }
}

/** The rows whose lease is still this one. None, or some, when another process has purged or claimed them. */
export async function findClaimed(tx: Tx, { ids, token }: Claimed): Promise<Pick<PurgedRow, 'id' | 'orgId'>[]> {
  return tx
    .select({ id: media.id, orgId: media.orgId })
    .from(media)
    .where(sql`${media.id} = any(${sql.param([...ids])}::uuid[]) and ${media.leaseToken} = ${token}`)
}

const claimed = ({ ids, token }: Claimed, more: SQL) => sql`
  select m.id, m.org_id as "orgId", m.version, ${isMediaHeld} as "isHeld" from ${media} m
  where m.id = any(${sql.param([...ids])}::uuid[]) and m.lease_token = ${token} and ${more}
  order by m.id for update`

/** Locks the rows whose lease is still this one and that are to be purged, also by the policy in force. */
export async function lockClaimed(tx: Tx, o: Claimed): Promise<PurgedRow[]> {
  const isDue = o.due
    ? sql`(m.purging_at is not null or m.deleted_at <= ${dueBy(o.due)})`
    : sql`m.purging_at is not null`
  const { rows } = await tx.execute<{ [K in keyof PurgedRow]: PurgedRow[K] }>(claimed(o, isDue))
  return rows
}

/** Before the first object goes: from the commit on the media items cannot be restored. Call with the rows locked. */
export async function beginPurge(tx: Tx, { ids }: Claimed): Promise<void> {
  await tx.execute(sql`update ${media} set purging_at = now()
    where id = any(${sql.param([...ids])}::uuid[]) and purging_at is null`)
}

/** The same in the transaction that removes them: no hold comes before its end, and no one else claims them. */
export async function lockPurging(tx: Tx, { ids, token }: Claimed): Promise<PurgedRow[]> {
  await lockHolds(tx)
  return lockClaimed(tx, { ids, token })
}

export const postponeHeld = (tx: Tx, { ids, token }: Claimed): Promise<void> =>
  postpone(tx, MEDIA_LEASES, ids, { until: { seconds: HELD_SECONDS }, token })

/** One statement: the halves of a Live Photo refer to each other. Call with the rows locked. */
export async function deletePurged(
  tx: Tx,
  rows: readonly Pick<PurgedRow, 'id' | 'orgId'>[],
  firstLookSeconds: number,
): Promise<void> {
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

/** How many media items are in the trash. */
const countTrash = (tx: Tx): Promise<number> => tx.$count(media, sql`${media.deletedAt} is not null`)

/** Whether a row of media items is due for the trash of a run. */
export const isDueMedia = (due: Due): SQL => sql`deleted_at is not null and deleted_at <= ${dueBy(due)}
  and (leaving_with is null or not exists (select from ${events} e where e.id = leaving_with))`

export async function countDueMedia(tx: Tx, due: Due): Promise<{ due: number; held: number }> {
  const before = await constantTime(tx, dueBy(due))
  const { rows } = await tx.execute<{ n: number; held: number }>(sql`
    select count(*)::float8 as n, (count(*) filter (where ${isMediaHeld}))::float8 as held from ${media} m
    where m.deleted_at is not null and m.deleted_at <= ${before} and ${isOfTrash}`)
  const { n, held } = rows[0] ?? { n: 0, held: 0 }
  return { due: n - held, held }
}

/** The trash, for guards: as much of the target as its sweep needs, too. */
export const TRASH: Swept = { name: 'MediaTrash', few: 1000, total: countTrash, countDue: countDueMedia }

/** What a run would purge, as it would: the image stands for a Live Photo. `after` is the last id with its time. */
export async function listDueMedia(
  tx: Tx,
  due: Due,
  o: { after: string | undefined; limit: number },
): Promise<{ lines: (Omit<ReportLine, 'id' | 'action'> & { id: Uuid })[]; last: string }> {
  const [at, id] = o.after?.split(' ') ?? []
  const { rows } = await tx.execute<{ id: Uuid; since: string; bytes: number; held: boolean }>(sql`
    select m.id, ${microseconds(sql`m.deleted_at`)} as since, ${isMediaHeld} as held,
      m.file_size_bytes::float8 as bytes from ${media} m
    where m.deleted_at is not null and m.deleted_at <= ${dueBy(due)} and ${isOfTrash}
      ${at === undefined ? sql`` : sql`and (m.deleted_at, m.id) > (${at}::timestamptz, ${id}::uuid)`}
    order by m.deleted_at, m.id limit ${o.limit}`)
  const end = rows.at(-1)
  return { lines: rows, last: end ? `${end.since} ${end.id}` : '' }
}
const microseconds = (time: SQL) => sql`to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

/** How long the oldest media item has been due for its purge, in seconds; 0 when none is. What holds keep is not due. */
export async function oldestPurgeSeconds(tx: Tx): Promise<number> {
  const { rows } = await tx.execute<{ seconds: number }>(sql`
    select extract(epoch from ${dueByNow} - m.deleted_at)::float8 as seconds from ${media} m
    where m.deleted_at is not null and m.deleted_at <= ${dueByNow} and ${isOfTrash}
      and not ${isMediaHeld}
    order by m.deleted_at limit 1`)
  return rows[0]?.seconds ?? 0
}
