import { type Id, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import { afterCursor, microseconds } from '../../../db/keyset.ts'
import {
  and,
  asc,
  desc,
  eq,
  getTableColumns,
  inArray,
  isNull,
  or,
  type Placeholder,
  type SQL,
  sql,
  unionAll,
} from '../../../db/orm.ts'
import { prepared } from '../../../db/prepared.ts'
import type { RowOf } from '../../../db/row-of.ts'
import { type AlbumRow, albums } from '../../../db/schema/albums.ts'
import {
  type Audience,
  type CommentRow,
  commentMedia,
  comments,
  commentVersions,
  type TargetType,
} from '../../../db/schema/comments.ts'
import { eventParticipants, events } from '../../../db/schema/events.ts'
import { media } from '../../../db/schema/media.ts'
import { memberships } from '../../../db/schema/organizations.ts'
import { users } from '../../../db/schema/users.ts'
import type { Member } from '../../../permissions/queries.ts'
import type { PageWanted } from '../../../requests/page.ts'
import { isParticipant } from '../../events/queries.ts'
import { type ItemIds, itemIdsOf } from '../../media/pairing-plan.ts'
import { ownReaction, reactionCounts } from '../../reaction-counts/queries.ts'
import type { Content } from './plan.ts'
import type { Whereabouts } from './policy.ts'

/** Whether the time to edit it is over, by the clock of the database as the transaction began. */
const isPastEdit = sql<boolean>`comments.created_at <= now() - interval '15 minutes'`

/** A comment in any state, with the facts of its event that decisions on it need. */
const foundFor = (callerId: Uuid) => ({
  ...getTableColumns(comments),
  ownerId: events.ownerId,
  status: events.status,
  isParticipant: isParticipant(sql`comments.event_id`, sql`${callerId}`),
  isPastEdit,
})
export type FoundComment = RowOf<ReturnType<typeof foundFor>>

interface OneComment {
  orgId: Uuid
  eventId?: Uuid
  id: Uuid
  callerId: Uuid
}

/** Lock the event first: see `findEvent`. After the comment come the media items that are attached to it. */
export async function findComment(
  tx: Tx,
  { orgId, eventId, id, callerId, lock }: OneComment & { lock?: 'share' | 'update' | undefined },
): Promise<FoundComment | undefined> {
  const query = tx
    .select(foundFor(callerId))
    .from(comments)
    .innerJoin(events, eq(events.id, comments.eventId))
    .where(
      and(
        eq(comments.orgId, orgId),
        eq(comments.id, id),
        eventId === undefined ? undefined : eq(comments.eventId, eventId),
      ),
    )
  const [row] = await (lock ? query.for(lock, { of: comments }) : query)
  return row
}

/** The album of an event. Whether the caller may see it is still to be decided. */
export async function findAlbumOfEvent(tx: Tx, orgId: Uuid, eventId: Uuid): Promise<AlbumRow | undefined> {
  const [row] = await tx
    .select()
    .from(albums)
    .where(and(eq(albums.orgId, orgId), eq(albums.eventId, eventId)))
  return row
}

/** Returns the users who have accepted an invitation to the event. A closed account takes part until its erasure gets to it. */
export async function findAccepted(tx: Tx, eventId: Uuid, userIds: readonly Uuid[]): Promise<Uuid[]> {
  const rows = await tx
    .select({ userId: eventParticipants.userId })
    .from(eventParticipants)
    .innerJoin(users, and(eq(users.id, eventParticipants.userId), isNull(users.closedAt)))
    .where(
      and(
        eq(eventParticipants.eventId, eventId),
        inArray(eventParticipants.userId, [...userIds]),
        eq(eventParticipants.status, 'accepted'),
      ),
    )
  return rows.map(({ userId }) => userId)
}

const half = { id: media.id, kind: media.kind, pairedMediaId: media.pairedMediaId }

/** A media item that is not deleted, with the audiences of the comments to which it or its counterpart is attached. */
export async function findAttached(
  tx: Tx,
  o: { orgId: Uuid; eventId: Uuid; id: Uuid },
): Promise<({ ids: ItemIds } & Pick<Whereabouts, 'attachedFor'>) | undefined> {
  const [row] = await tx
    .select({ ...half, attachedFor: attachedFor(sql`array[media.id, media.paired_media_id]`, sql`${o.eventId}`) })
    .from(media)
    .where(and(eq(media.orgId, o.orgId), eq(media.id, o.id), isNull(media.deletedAt)))
  return row && { ids: itemIdsOf(row), attachedFor: row.attachedFor }
}

/** Where a media item is in the events that this user takes part in. A guest takes part in few. */
export async function findPlaces(tx: Tx, o: { orgId: Uuid; mediaId: Uuid; userId: Uuid }) {
  const ids = sql`(select array[m.id, m.paired_media_id] from media m where m.id = ${o.mediaId} and m.deleted_at is null)`
  return tx
    .select({
      event: { ownerId: events.ownerId, status: events.status },
      album: { ownerId: albums.ownerId, status: albums.status, visibility: albums.visibility },
      isInAlbum: sql<boolean>`exists (select from album_media i
        where i.album_id = albums.id and i.listed and i.media_id = any(${ids}::uuid[]))`,
      attachedFor: attachedFor(ids, sql`events.id`),
    })
    .from(eventParticipants)
    .innerJoin(events, eq(events.id, eventParticipants.eventId))
    .leftJoin(albums, eq(albums.eventId, events.id))
    .where(
      and(
        eq(eventParticipants.orgId, o.orgId),
        eq(eventParticipants.userId, o.userId),
        eq(eventParticipants.status, 'accepted'),
      ),
    )
}

/** The audiences of the comments of the event to which one of these media items is attached. */
const attachedFor = (ids: SQL, event: SQL) => sql<Audience[]>`array(select distinct c.audience from comment_media a
  join comments c on c.id = a.comment_id and c.deleted_at is null
  where a.media_id = any(${ids}::uuid[]) and a.event_id = ${event})`

/** The ids of a media item in any state. A purged one has only its own. */
export async function findItemIds(tx: Tx, orgId: Uuid, id: Uuid): Promise<ItemIds> {
  const [row] = await tx
    .select(half)
    .from(media)
    .where(and(eq(media.orgId, orgId), eq(media.id, id)))
  return row ? itemIdsOf(row) : [id]
}

const newestFirst = [desc(comments.createdAt), desc(comments.id)]
const placeholder = { event: sql.placeholder('event'), caller: sql.placeholder('caller') }
const reactedTo = { type: 'comment', event: sql`comments.event_id`, id: sql`comments.id` } as const

/**
 * What callers see of a comment. Counts are counted, so they cannot drift; each subquery is a look-up in an index for the
 * rows of the page alone. Names are written out: in a query of one table drizzle leaves out the table.
 */
const shown = {
  id: comments.id,
  eventId: comments.eventId,
  authorId: comments.authorId,
  // Of a member, or of a guest of the event.
  authorName: sql<string | null>`(select u.display_name from users u where u.id = comments.author_id and (
    exists (select from memberships m where m.org_id = comments.org_id and m.user_id = comments.author_id)
    or exists (select from event_participants p where p.event_id = comments.event_id
      and p.user_id = comments.author_id and p.status = 'accepted')))`,
  body: comments.body,
  mediaIds: sql<Id<'media'>[]>`array(select a.media_id from comment_media a join media m on m.id = a.media_id
    where a.comment_id = comments.id and m.deleted_at is null order by a.position)`,
  mentions: comments.mentions,
  replyCount: sql<number>`(select count(*)::int from comments r where r.event_id = comments.event_id
    and r.target_type = 'comment' and r.target_id = comments.id and r.listed)`,
  version: comments.version,
  createdAt: microseconds(comments.createdAt),
  updatedAt: comments.updatedAt,
  deletedAt: comments.deletedAt,
  isPastEdit,
  reactionCounts: reactionCounts(reactedTo),
  myReaction: ownReaction(reactedTo, sql`${placeholder.caller}`),
}
export type ShownComment = RowOf<typeof shown>

export interface Thread {
  orgId: Uuid
  eventId: Uuid
  callerId: Uuid
  type: TargetType
  /** The target of the thread. For a Live Photo also the video: comments may be older than the pairing. */
  ids: ItemIds
  /** The audiences of the comments that the caller sees. */
  sees: readonly Audience[]
  /** Also deleted comments, as long as they have replies. */
  withDeleted?: boolean | undefined
}

const about = (id: Placeholder, { withDeleted }: Pick<Thread, 'withDeleted'>) =>
  and(
    eq(comments.orgId, sql.placeholder('org')),
    eq(comments.eventId, placeholder.event),
    eq(comments.targetType, sql.placeholder('type')),
    eq(comments.targetId, id),
    // Written as the conditions of the indexes are.
    withDeleted ? sql`${comments.listed}` : isNull(comments.deletedAt),
    sql`${comments.audience} = any(${sql.placeholder('sees')}::text[])`,
  )
const target = sql.placeholder('target')
const video = sql.placeholder('video')
const valuesOf = ({ ids: [target, video = target], ...o }: Thread) => ({
  org: o.orgId,
  event: o.eventId,
  caller: o.callerId,
  type: o.type,
  target,
  video,
  sees: o.sees,
})

/** A comment of the thread as this caller sees it. */
export async function findShownComment(tx: Tx, id: Uuid, thread: Thread): Promise<ShownComment | undefined> {
  const name = `find_shown_comment${thread.withDeleted ? '_or_deleted' : ''}`
  const values = { ...valuesOf(thread), id }
  const [row] = await prepared(tx, name, values, () =>
    tx
      .select(shown)
      .from(comments)
      .where(and(or(about(target, thread), about(video, thread)), eq(comments.id, sql.placeholder('id')))),
  )
  return row
}

/** Newest first. Of a Live Photo, a page merges one page of each half. */
export async function listComments(tx: Tx, { after, limit, ...thread }: Thread & PageWanted): Promise<ShownComment[]> {
  const isPair = thread.ids.length > 1
  const kind = `${isPair ? 'of_pair_' : ''}${thread.withDeleted ? 'with_deleted_' : ''}`
  const name = `list_comments_${kind}${after ? 'next' : 'first'}`
  const values = { ...valuesOf(thread), limit, at: after?.at, id: after?.id }
  return prepared(tx, name, values, () => {
    const pageOf = (id: Placeholder) =>
      tx
        .select()
        .from(comments)
        .where(and(about(id, thread), after && afterCursor(comments.createdAt, comments.id)))
        .orderBy(...newestFirst)
        .limit(sql.placeholder('limit'))
    const rows = isPair ? unionAll(pageOf(target), pageOf(video)) : pageOf(target)
    return tx
      .select(shown)
      .from(rows.as('comments'))
      .orderBy(...newestFirst)
      .limit(sql.placeholder('limit'))
  })
}

/** Returns the roles of the users who are members. */
export const findMembers = (tx: Tx, orgId: Uuid, userIds: readonly Uuid[]): Promise<Member[]> =>
  tx
    .select({ orgId: memberships.orgId, userId: memberships.userId, role: memberships.role })
    .from(memberships)
    .where(and(eq(memberships.orgId, orgId), inArray(memberships.userId, [...userIds])))

/**
 * Returns the media items that exist, and whether they are visible. Locks them in order of id, so that no purge deletes
 * the row that an attachment refers to before this transaction ends.
 */
export const holdAttachments = (tx: Tx, orgId: Uuid, ids: readonly Uuid[]) =>
  tx
    .select({ id: media.id, isVisible: sql<boolean>`${media.deletedAt} is null` })
    .from(media)
    .where(and(eq(media.orgId, orgId), inArray(media.id, [...ids])))
    .orderBy(asc(media.id))
    .for('key share')

type NewComment = Pick<
  CommentRow,
  'orgId' | 'eventId' | 'targetType' | 'targetId' | 'mediaId' | 'audience' | 'authorId'
> &
  Content

export async function insertComment(tx: Tx, { mediaIds, ...row }: NewComment): Promise<CommentRow> {
  const [made] = await tx
    .insert(comments)
    .values({ ...row, mentions: [...row.mentions], mentionsGiven: [...row.mentionsGiven], id: newUuid() })
    .returning()
  if (!made) throw new Error('a comment was not inserted')
  await attach(tx, made, mediaIds)
  return made
}

async function attach(tx: Tx, { id, orgId, eventId }: CommentRow, mediaIds: readonly Uuid[]): Promise<void> {
  if (mediaIds.length === 0) return
  const rows = mediaIds.map((mediaId, position) => ({ commentId: id, position, orgId, eventId, mediaId }))
  await tx.insert(commentMedia).values(rows)
}

/** All attachments, also deleted media items. */
export async function findAttachments(tx: Tx, commentId: Uuid): Promise<Uuid[]> {
  const rows = await tx
    .select({ id: commentMedia.mediaId })
    .from(commentMedia)
    .where(eq(commentMedia.commentId, commentId))
    .orderBy(asc(commentMedia.position))
  return rows.map(({ id }) => id)
}

/** Returns the users whom an earlier version of the comment mentions. */
export async function findTold(tx: Tx, commentId: Uuid): Promise<Uuid[]> {
  const rows = await tx
    .selectDistinct({ id: sql<Uuid>`unnest(${commentVersions.mentions})` })
    .from(commentVersions)
    .where(eq(commentVersions.commentId, commentId))
  return rows.map(({ id }) => id)
}

/** Keeps the version as it is and writes the next one. Call with the comment locked. */
export async function editComment(
  tx: Tx,
  before: CommentRow & { mediaIds: readonly Uuid[] },
  { mediaIds, ...content }: Content,
): Promise<CommentRow> {
  const { id: commentId, version, orgId, body, mentions, updatedAt: writtenAt } = before
  await tx
    .insert(commentVersions)
    .values({ commentId, version, orgId, body, mentions, mediaIds: [...before.mediaIds], writtenAt })
  const [row] = await tx
    .update(comments)
    .set({
      body: content.body,
      mentions: [...content.mentions],
      mentionsGiven: [...content.mentionsGiven],
      version: version + 1,
      updatedAt: sql`now()`,
    })
    .where(eq(comments.id, commentId))
    .returning()
  if (!row) throw new Error(`the comment ${commentId} was locked and is gone`)
  if (mediaIds.join() !== before.mediaIds.join()) {
    await tx.delete(commentMedia).where(eq(commentMedia.commentId, commentId))
    await attach(tx, row, mediaIds)
  }
  return row
}

/** Call with the comment locked. Lists that ask for deleted comments show it as long as it has replies. */
export async function markDeleted(tx: Tx, id: Uuid, o: { by: Uuid; reason: string | null }): Promise<void> {
  await tx
    .update(comments)
    .set({
      deletedAt: sql`now()`,
      deletedBy: o.by,
      deletedReason: o.reason,
      version: sql`${comments.version} + 1`,
    })
    .where(eq(comments.id, id))
}
