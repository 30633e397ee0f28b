import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { type SQL, sql } from '../../db/orm.ts'
import { albumMedia, albums } from '../../db/schema/albums.ts'
import { commentMedia, comments } from '../../db/schema/comments.ts'
import { events } from '../../db/schema/events.ts'
import { highlightItems, highlights } from '../../db/schema/highlights.ts'
import { type MediaRow, media } from '../../db/schema/media.ts'

/** A media item, or both halves of a Live Photo with the image first. Each half may have a place in an album or a comment. */
export type Group = readonly Uuid[]

/** The places that media items have in the event: in its album, and in comments that are not deleted. */
const placesIn = (eventId: SQL) => sql`(
  select i.media_id, i.added_by as by_user, i.added_at as at
    from ${albums} a join ${albumMedia} i on i.album_id = a.id where a.event_id = ${eventId}
  union all
  select cm.media_id, c.author_id, c.created_at
    from ${commentMedia} cm join ${comments} c on c.id = cm.comment_id
    where cm.event_id = ${eventId} and c.deleted_at is null)`

/** What belongs to the event, in order of id: at most an album and what is attached to comments. */
export async function findBelonging(tx: Tx, eventId: Uuid): Promise<Group[]> {
  const { rows } = await tx.execute<{ ids: Uuid[] }>(sql`
    select distinct case
        when m.paired_media_id is null then array[m.id]
        when m.kind = 'image' then array[m.id, m.paired_media_id]
        else array[m.paired_media_id, m.id] end as ids
    from ${placesIn(sql`${eventId}::uuid`)} p join ${media} m on m.id = p.media_id order by ids`)
  return rows.map(({ ids }) => ids)
}

/** Whether a row names the media item `m` or its counterpart. */
const names = (column: SQL) => sql`${column} in (m.id, m.paired_media_id)`

/**
 * Whether the original of `m` may move to the cold tier with the event: no album outside ARCHIVE but the event's own and no
 * event that is not archived holds it. What a Job reads now stays where its resource says that it is.
 */
const mayCool = (eventId: Uuid) => sql`(
  m.deleted_at is null and m.upload_status <> 'processing'
  and not exists (select from ${albumMedia} i join ${albums} a on a.id = i.album_id left join ${events} o on o.id = a.event_id
    where ${names(sql`i.media_id`)} and a.event_id is distinct from ${eventId}::uuid
      and (a.status <> 'ARCHIVE' or o.status <> 'archived'))
  and not exists (select from ${commentMedia} cm join ${comments} c on c.id = cm.comment_id
    join ${events} o on o.id = cm.event_id
    where ${names(sql`cm.media_id`)} and c.deleted_at is null and o.status <> 'archived')
  and not exists (select from ${highlightItems} hi join ${highlights} h on h.id = hi.highlight_id
    where (hi.media_id = m.id or hi.source_id = m.id) and h.status = 'processing' and h.deleted_at is null))`

/** Whether the media item that has this id belongs to the event. */
const isOf = (eventId: Uuid, mediaId: SQL) => sql`(
  exists (select from ${albumMedia} i join ${albums} a on a.id = i.album_id
    where i.media_id = ${mediaId} and a.event_id = ${eventId}::uuid)
  or exists (select from ${commentMedia} cm join ${comments} c on c.id = cm.comment_id
    where cm.media_id = ${mediaId} and cm.event_id = ${eventId}::uuid and c.deleted_at is null))`

/**
 * Whether the media item `m` goes with the event: it was added for it, and no other album, comment of another event or
 * highlight holds it. A highlight of the event's album that is made of nothing else holds nothing: its film stays without its
 * sources. One that is being rendered holds its sources.
 */
const goes = (eventId: Uuid, addedWithin: string) => sql`(
  exists (select from ${placesIn(sql`${eventId}::uuid`)} p join ${events} e on e.id = ${eventId}::uuid
    where ${names(sql`p.media_id`)} and p.by_user = m.uploader_id and m.created_at >= e.created_at
      and p.at between m.created_at - ${addedWithin}::interval and m.created_at + ${addedWithin}::interval)
  and not exists (select from ${albumMedia} i join ${albums} a on a.id = i.album_id
    where ${names(sql`i.media_id`)} and a.event_id is distinct from ${eventId}::uuid)
  and not exists (select from ${commentMedia} cm join ${comments} c on c.id = cm.comment_id
    where ${names(sql`cm.media_id`)} and cm.event_id <> ${eventId}::uuid and c.deleted_at is null)
  and not exists (select from ${highlightItems} hi join ${highlights} h on h.id = hi.highlight_id
    left join ${albums} a on a.id = h.album_id
    where (${names(sql`hi.media_id`)} or ${names(sql`hi.source_id`)}) and h.deleted_at is null
      and (h.status = 'processing' or a.event_id is distinct from ${eventId}::uuid
        or exists (select from ${highlightItems} other join ${media} om on om.id = other.media_id
          where other.highlight_id = h.id and not ${isOf(eventId, sql`om.id`)}))))`

const among = (ids: readonly Uuid[]) => sql`any(${sql.param([...ids])}::uuid[])`

export interface Original
  extends Pick<MediaRow, 'id' | 'orgId' | 'originalTier' | 'fileSizeBytes' | 'sha256' | 'mimeType'> {
  mayCool: boolean
}

/** Where these originals are, and whether they may move. Locked: what would hold them waits, or is seen. */
export async function findOriginals(
  tx: Tx,
  eventId: Uuid,
  ids: readonly Uuid[],
  { lock = false } = {},
): Promise<Original[]> {
  // The lock first, in a statement of its own: the next one sees what the transactions before it have committed.
  if (lock) await lockMedia(tx, ids)
  const { rows } = await tx.execute<Omit<Original, 'fileSizeBytes'> & { fileSizeBytes: number }>(sql`
    select m.id, m.org_id as "orgId", m.original_tier as "originalTier", m.file_size_bytes::float8 as "fileSizeBytes",
      m.sha256, m.mime_type as "mimeType", ${mayCool(eventId)} as "mayCool"
    from ${media} m where m.id = ${among(ids)} order by m.id`)
  return rows
}

export const lockMedia = (tx: Tx, ids: readonly Uuid[]) =>
  tx.execute(sql`select from ${media} where id = ${among(ids)} order by id for update`)

export interface Leaving {
  group: Group
  /** `goes`: it is the event's alone. `going`: its purge has begun. `stays`: in the library. */
  fate: 'goes' | 'going' | 'stays'
  /** A Job reads it, or another process purges it. */
  isBusy: boolean
}

/** What becomes of these media items when the event is purged. Call with them locked, so that it stays true. */
export async function findFates(
  tx: Tx,
  eventId: Uuid,
  groups: readonly Group[],
  o: { addedWithin: string; token: Uuid },
): Promise<Leaving[]> {
  const { rows } = await tx.execute<{ id: Uuid; going: boolean; goes: boolean; busy: boolean }>(sql`
    select m.id, m.purging_at is not null as going, ${goes(eventId, o.addedWithin)} as goes,
      (m.upload_status = 'processing' or m.lease_at > now() and m.lease_token is distinct from ${o.token}::uuid) as busy
    from ${media} m where m.id = ${among(groups.flat())}`)
  const byId = new Map(rows.map((row) => [row.id, row]))
  return groups.flatMap((group) => {
    const halves = group.flatMap((id) => byId.get(id) ?? [])
    const [first] = halves
    // Gone, or half gone: another process has purged it since.
    if (!first || halves.length < group.length) return []
    const going = halves.some((half) => half.going)
    const fate = going ? 'going' : halves.every((half) => half.goes) ? 'goes' : 'stays'
    return [{ group, fate, isBusy: halves.some(({ busy }) => busy) }]
  })
}
