import type { Id, Uuid } from '../../../lib/contract/ids.ts'
import type { OriginalTier } from '../../../lib/contract/object-keys.ts'
import { originalKeyIn } from '../../../lib/contract/object-keys.ts'
import type { Tx } from '../../db/db.ts'
import { type SQL, sql } from '../../db/orm.ts'
import { FIRST_ID, timeOf } from '../../requests/own-data.ts'
import { shownPurgeTime } from '../events/purge-time-queries.ts'
import { reactionCounts, reactionCountsOfItem, reactionCountsOfPair } from '../reaction-counts/queries.ts'
import type { ExportFile, ExportFilm, ExportRow } from './content.ts'
import type { Sight } from './event-sight.ts'

/** The rows after a key of what a person sees of an event. As keepsake_worker: each query says what the person sees. */
export interface SeenPage {
  sight: Sight
  after: string | undefined
  limit: number
}

const idAfter = (after: string | undefined) => sql`${after ?? FIRST_ID}::uuid`
const list = (values: readonly string[], type: 'uuid' | 'text') =>
  sql`any(${sql.param([...values])}::${sql.raw(type)}[])`

/**
 * What people whose accounts are closed left is not taken up: it is being erased, and must not get into a new archive. Of
 * the others, the ids say whose erasure ends the export.
 */
const isOpen = (user: SQL) => sql`exists (select from users u where u.id = ${user} and u.closed_at is null)`
const noneClosed = (users: SQL) =>
  sql`not exists (select from users u where u.id = any(${users}) and u.closed_at is not null)`
const peopleOf = (users: SQL) => sql`array(select u.id from users u where u.id = any(${users}) and u.closed_at is null)`
const ifOpen = (user: SQL, column: SQL) => sql`case when ${isOpen(user)} then ${column} end`

/** Of a member, or of a guest of the event: as its pages name people. */
const nameOf = (user: SQL, { orgId, eventId }: Sight) => sql`(select u.display_name from users u where u.id = ${user}
  and u.closed_at is null and (
    exists (select from memberships m where m.org_id = ${orgId} and m.user_id = u.id)
    or exists (select from event_participants p where p.event_id = ${eventId} and p.user_id = u.id and p.status = 'accepted')))`

export async function seenEvent(tx: Tx, { sight, after }: SeenPage): Promise<ExportRow[]> {
  if (after !== undefined) return []
  const target = { type: 'meta', event: sql`e.id`, id: sql`e.id` } as const
  const { rows } = await tx.execute<ExportRow>(sql`
    select e.id as key, e.id as event_id, e.org_id, ${ifOpen(sql`e.owner_id`, sql`e.title`)} as title,
      ${ifOpen(sql`e.owner_id`, sql`e.description`)} as description, e.start_at, e.end_at,
      ${ifOpen(sql`e.owner_id`, sql`e.location_name`)} as location_name,
      ${ifOpen(sql`e.owner_id`, sql`e.latitude`)} as latitude, ${ifOpen(sql`e.owner_id`, sql`e.longitude`)} as longitude,
      e.status, e.created_at, e.activated_at, e.archived_at, ${shownPurgeTime(sql`e`)} as purge_at,
      ${nameOf(sql`e.owner_id`, sight)} as host_name, ${reactionCounts(target)} as reactions,
      ${peopleOf(sql`array[e.owner_id]`)} as people
    from events e where e.id = ${sight.eventId}`)
  return rows
}

export async function seenAlbum(tx: Tx, { sight, after }: SeenPage): Promise<ExportRow[]> {
  if (after !== undefined || sight.albumId === null) return []
  const { rows } = await tx.execute<ExportRow>(sql`
    select a.id as key, a.id as album_id, ${ifOpen(sql`a.owner_id`, sql`a.title`)} as title,
      ${ifOpen(sql`a.owner_id`, sql`a.description`)} as description, a.visibility, a.status, a.created_at,
      (select count(*)::int from album_media i where i.album_id = a.id and i.listed) as media_count,
      ${nameOf(sql`a.owner_id`, sight)} as owner_name, ${peopleOf(sql`array[a.owner_id]`)} as people
    from albums a where a.id = ${sight.albumId}`)
  return rows
}

/** The places of media items that the person sees: in the album, and in comments. Each half of a Live Photo may have one. */
const inAlbum = ({ albumId }: Sight) =>
  sql`select i.media_id from album_media i where i.album_id = ${albumId}::uuid and i.listed`
const attached = ({ eventId, audiences }: Sight) => sql`select cm.media_id from comment_media cm
  join comments c on c.id = cm.comment_id
  where cm.event_id = ${eventId} and c.deleted_at is null and c.audience = ${list(audiences, 'text')}`

/** Whether the person sees the media item `m` in the event: the rule of `audienceOf` for comments on media items. */
const isSeen = (sight: Sight) => sql`(m.deleted_at is null and m.purging_at is null and (
  exists (${inAlbum(sight)} and i.media_id in (m.id, m.paired_media_id))
  or exists (${attached(sight)} and cm.media_id in (m.id, m.paired_media_id))))`
const isTaken = (sight: Sight) => sql`(${isSeen(sight)} and ${isOpen(sql`m.uploader_id`)})`

/** Both halves of a Live Photo, whichever has the place, in the order of their ids. */
const seenMediaPage = ({ sight, after, limit }: SeenPage) => sql`(
  select m.* from media m where m.id > ${idAfter(after)} and m.id in (
      select unnest(array[half.id, half.paired_media_id])
      from (${inAlbum(sight)} union ${attached(sight)}) places join media half on half.id = places.media_id)
    and ${isTaken(sight)}
  order by m.id limit ${limit})`

export async function seenMedia(tx: Tx, page: SeenPage): Promise<ExportRow[]> {
  const { sight } = page
  const item = { event: sql`${sight.eventId}::uuid`, sees: sql`${sql.param([...sight.audiences])}` }
  const writer = sql`coalesce(place.caption_by, place.added_by)`
  const { rows } = await tx.execute<ExportRow>(sql`
    select m.id as key, m.id as media_id, m.original_filename as filename, m.mime_type, m.file_size_bytes::float8 as bytes,
      m.taken_at, m.created_at, m.paired_media_id, ${nameOf(sql`m.uploader_id`, sight)} as uploader_name,
      place.media_id is not null as in_album, place.position::float8 as album_position,
      ${ifOpen(writer, sql`place.caption`)} as caption,
      case when m.kind = 'video' and m.paired_media_id is not null then null
        when m.paired_media_id is not null
          then ${reactionCountsOfPair({ ...item, image: sql`m.id`, video: sql`m.paired_media_id` })}
        else ${reactionCountsOfItem({ ...item, id: sql`m.id` })} end as reactions,
      ${peopleOf(sql`array[m.uploader_id, ${writer}]`)} as people
    from ${seenMediaPage(page)} m left join lateral (
      select i.media_id, i.position, i.caption, i.caption_by, i.added_by from album_media i
      where i.album_id = ${sight.albumId}::uuid and i.listed and i.media_id in (m.id, m.paired_media_id)
      order by i.position limit 1) place on true
    order by m.id`)
  return rows
}

interface FileColumns extends Record<string, unknown> {
  id: Id<'media'>
  org_id: Id<'organization'>
  filename: string
  mime_type: string
  bytes: number
  original_tier: OriginalTier
  taken_at: string
  title: string
  start_at: string
  people: Uuid[]
}

export async function seenFiles(tx: Tx, page: SeenPage): Promise<ExportFile[]> {
  const { rows } = await tx.execute<FileColumns>(sql`
    select m.id, m.org_id, m.original_filename as filename, m.mime_type, m.file_size_bytes::float8 as bytes,
      m.original_tier, m.taken_at, coalesce(${ifOpen(sql`e.owner_id`, sql`e.title`)}, '') as title, e.start_at,
      ${peopleOf(sql`array[m.uploader_id, e.owner_id]`)} as people
    from ${seenMediaPage(page)} m join events e on e.id = ${page.sight.eventId} order by m.id`)
  return rows.map((row) => ({
    mediaId: row.id,
    orgId: row.org_id,
    key: originalKeyIn(row.original_tier, row.org_id, row.id),
    filename: row.filename,
    mimeType: row.mime_type,
    bytes: row.bytes,
    takenAt: timeOf(row.taken_at),
    event: { title: row.title, startAt: timeOf(row.start_at) },
    people: row.people,
  }))
}

export async function findSeenMedia(tx: Tx, sight: Sight, ids: readonly Uuid[]): Promise<Uuid[]> {
  if (ids.length === 0) return []
  const { rows } = await tx.execute<{ id: Uuid }>(
    sql`select m.id from media m where m.id = ${list(ids, 'uuid')} and ${isTaken(sight)}`,
  )
  return rows.map(({ id }) => id)
}

export async function seenComments(tx: Tx, { sight, after, limit }: SeenPage): Promise<ExportRow[]> {
  const target = { type: 'comment', event: sql`c.event_id`, id: sql`c.id` } as const
  const named = sql`c.author_id || c.mentions || c.mentions_given`
  const { rows } = await tx.execute<ExportRow>(sql`
    select c.id as key, c.id as comment_id, c.target_type as about,
      case when c.target_type = 'comment' then c.target_id end as reply_to, c.media_id,
      ${nameOf(sql`c.author_id`, sight)} as author_name, c.body as text, c.created_at, c.updated_at, c.version > 1 as edited,
      array(select cm.media_id from comment_media cm join media m on m.id = cm.media_id
        where cm.comment_id = c.id and ${isTaken(sight)} order by cm.position) as attached_media_ids,
      ${reactionCounts(target)} as reactions, ${peopleOf(named)} as people
    from comments c where c.event_id = ${sight.eventId} and c.id > ${idAfter(after)} and c.deleted_at is null
      and c.audience = ${list(sight.audiences, 'text')} and ${noneClosed(named)}
      and (c.media_id is null or exists (select from media m where m.id = c.media_id and ${isSeen(sight)}))
    order by c.id limit ${limit}`)
  return rows
}

/** Members and guests have names; who is invited and no member has none. */
export async function seenParticipants(tx: Tx, { sight, after, limit }: SeenPage): Promise<ExportRow[]> {
  const { rows } = await tx.execute<ExportRow>(sql`
    select p.user_id as key, ${nameOf(sql`p.user_id`, sight)} as display_name, p.status, p.joined_at,
      array[p.user_id] as people
    from event_participants p
    where p.event_id = ${sight.eventId} and p.user_id > ${idAfter(after)} and ${isOpen(sql`p.user_id`)}
    order by p.user_id limit ${limit}`)
  return rows
}

/** With addresses, which are masked before anyone gets them, as in the list of invitations. */
export async function seenInvitations(tx: Tx, { sight, after, limit }: SeenPage): Promise<ExportRow[]> {
  const named = sql`(array[i.user_id, i.invited_by, i.responded_by] || array(select u.id from users u
    where lower(u.email) = i.email or u.phone_number = i.phone_number))`
  const { rows } = await tx.execute<ExportRow>(sql`
    select i.id as key, i.id as invitation_id, i.email, i.phone_number,
      case when i.status = 'pending' and i.token_expires_at <= now() then 'expired' else i.status end as status,
      (select u.display_name from users u join memberships m on m.user_id = u.id and m.org_id = i.org_id
        where u.id = i.user_id) as invitee_name,
      ${nameOf(sql`i.invited_by`, sight)} as invited_by_name, i.message, i.created_at, i.responded_at, i.response_message,
      ${peopleOf(named)} as people
    from invitations i where i.event_id = ${sight.eventId} and i.id > ${idAfter(after)} and ${noneClosed(named)}
    order by i.id limit ${limit}`)
  return rows
}

/** Of the album of the event, finished, and made of nothing of people whose accounts are closed. */
const filmsOf = ({ eventId, userId, films }: Sight) => sql`from highlights h join albums a on a.id = h.album_id
  where a.event_id = ${eventId} and h.status = 'completed' and h.deleted_at is null and h.output_prefix is not null
    and h.hls_master is not null
    and case when h.created_by = ${userId} then ${films.own}::boolean else ${films.ofOthers}::boolean end
    and ${noneClosed(peopleInFilm)}`
const peopleInFilm = sql`(h.created_by || array(select unnest(array[i.uploader_id, i.caption_by])
  from highlight_items i where i.highlight_id = h.id))`

interface FilmColumns extends Record<string, unknown> {
  id: Id<'highlight'>
  org_id: Id<'organization'>
  title: string
  output_prefix: string
  hls_master: string
  created_at: string
  people: Uuid[]
}

export async function nextSeenFilm(tx: Tx, sight: Sight, after: Uuid | undefined): Promise<ExportFilm | undefined> {
  const { rows } = await tx.execute<FilmColumns>(sql`
    select h.id, h.org_id, h.title, h.output_prefix, h.hls_master, h.created_at, ${peopleOf(peopleInFilm)} as people
    ${filmsOf(sight)} and h.id > ${idAfter(after)} order by h.id limit 1`)
  const [row] = rows
  return (
    row && {
      highlightId: row.id,
      orgId: row.org_id,
      title: row.title,
      prefix: row.output_prefix,
      master: row.hls_master,
      createdAt: timeOf(row.created_at),
      people: row.people,
    }
  )
}

export async function findSeenFilms(tx: Tx, sight: Sight, ids: readonly Uuid[]): Promise<Set<Uuid>> {
  if (ids.length === 0) return new Set()
  const { rows } = await tx.execute<{ id: Uuid }>(sql`select h.id ${filmsOf(sight)} and h.id = ${list(ids, 'uuid')}`)
  return new Set(rows.map(({ id }) => id))
}

export async function seenFilms(tx: Tx, { sight, after, limit }: SeenPage): Promise<ExportRow[]> {
  const { rows } = await tx.execute<ExportRow>(sql`
    select h.id as key, h.id as highlight_id, h.title, h.duration_sec, h.created_at,
      ${nameOf(sql`h.created_by`, sight)} as created_by_name,
      array(select i.media_id from highlight_items i where i.highlight_id = h.id order by i.position) as media_ids,
      ${peopleOf(peopleInFilm)} as people
    ${filmsOf(sight)} and h.id > ${idAfter(after)} order by h.id limit ${limit}`)
  return rows
}
