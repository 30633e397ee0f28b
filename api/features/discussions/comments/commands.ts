import { formatId, type Uuid } from '../../../../lib/contract/ids.ts'
import { invalid, notFound, Problem } from '../../../../lib/contract/problem.ts'
import type { Tx } from '../../../db/db.ts'
import type { CommentRow } from '../../../db/schema/comments.ts'
import type { EventRow } from '../../../db/schema/events.ts'
import type { TakePoints } from '../../../limits/points.ts'
import { found } from '../../../requests/found.ts'
import { lockPermitted } from '../../../requests/lock-permitted.ts'
import type { Read, Write } from '../../../requests/request.ts'
import { type EventFor, findEventFor } from '../../events/queries.ts'
import { type Comment, formatTarget, type Target, toComment } from './comment.ts'
import { excerptOf, MAX_MENTIONS } from './mentions.ts'
import { type Changes, type Edit, planEdit } from './plan.ts'
import { type commentActions, isReply } from './policy.ts'
import {
  editComment,
  type FoundComment,
  findAttachments,
  findComment,
  findItemIds,
  findShownComment,
  findTold,
  holdAttachments,
  insertComment,
  markDeleted,
  type Thread,
} from './queries.ts'
import { type FoundTarget, findTarget, listReaders } from './targets.ts'

/** A thread of an event, as the path names it. */
export interface ThreadPath {
  eventId: Uuid
  target: Target | undefined
}
export interface CommentPath extends ThreadPath {
  id: Uuid
}

/** Whether deleted comments that have replies are shown. */
type Deleted = Pick<Thread, 'withDeleted'>

type Reading = Pick<
  Read<typeof commentActions.read>,
  'tx' | 'orgId' | 'actor' | 'permit' | 'permitAlso' | 'can' | 'now'
>

/** The thread, unless the caller cannot see it. The comments on a deleted comment can still be read. */
export async function openThread(request: Reading, path: ThreadPath): Promise<Thread & Target & { event: EventFor }> {
  const { event, target } = await open(request, path)
  return { ...threadOf(request, event, target), event }
}

export async function showComment(request: Reading, path: CommentPath, deleted: Deleted): Promise<Comment> {
  const { event, target } = await open(request, path)
  return show(request, event, path.id, target, deleted)
}

async function open(
  request: Reading,
  { eventId, target }: ThreadPath,
): Promise<{ event: EventFor; target: FoundTarget }> {
  const { tx, orgId, actor, permit } = request
  const event = permit(found(await findEventFor(tx, orgId, eventId, actor.userId)))
  return { event, target: found(await findTarget(request, event, found(target))) }
}

const threadOf = (
  { orgId, actor }: Pick<Reading, 'orgId' | 'actor'>,
  event: EventRow,
  { type, id, ids, sees }: FoundTarget,
) => ({ orgId, eventId: event.id, callerId: actor.userId, type, id, ids, sees })

/** Counts the users whom a comment tells. */
export interface Telling {
  takeMentions: TakePoints
}

export async function postComment(
  request: Write<typeof commentActions.create>,
  { eventId, target: named, field }: ThreadPath & { /** What names the target. */ field: string },
  given: Changes,
  { takeMentions }: Telling,
): Promise<Comment> {
  const { tx, orgId, actor, permit, ready, announce, audit } = request
  const event = await lockPermitted(
    (lock) => findEventFor(tx, orgId, eventId, actor.userId, lock ? { lock: 'share' } : {}),
    permit,
  )
  const target = found(await findTarget(request, event, found(named), { lock: true }))
  if (target.comment?.deletedAt) throw notFound()
  ready(event)
  if (target.comment && isReply(target.comment)) {
    throw invalid([{ field, issue: 'is a reply, which cannot be replied to' }])
  }
  const edit = planEdit(given)
  await requireMentionable(request, event, target, edit, given)
  const content = await holdContent(request, edit)
  const told = others(content.mentions, actor.userId)
  await takeMentions(tx, actor.userId, told.length)
  const { type: targetType, id: targetId, audience, mediaId } = target
  const row = await insertComment(tx, {
    ...content,
    orgId,
    eventId,
    targetType,
    targetId,
    mediaId,
    audience,
    authorId: actor.userId,
  })
  await announce('CommentPosted', row, {
    ...idsOf(row),
    author_id: row.authorId,
    target_type: targetType,
    target_id: formatTarget(target),
    audience,
  })
  await tellMentioned(request, row, told)
  await audit('COMMENT_CREATE', row, { event_id: formatId('event', eventId) })
  return show(request, event, row.id, target)
}

/** An edit that leaves the comment as it is changes nothing. */
export async function changeComment(
  request: Write<typeof commentActions.edit>,
  path: CommentPath,
  changes: Changes,
  { takeMentions }: Telling,
): Promise<Comment> {
  const { tx, permit, ready, audit } = request
  const { event, comment } = await lockComment(request, path, permit)
  const target = found(await findTarget(request, event, { type: comment.targetType, id: comment.targetId }))
  ready(comment)
  const mediaIds = await findAttachments(tx, comment.id)
  const edit = planEdit(changes, { ...comment, mediaIds })
  if (!edit.isChange) return show(request, event, comment.id, target)
  // The audience of the comment, which stays what it was, and not that of new comments on its target: the media item may
  // have left the album since, or come into it.
  await requireMentionable(request, event, comment, edit, changes)
  const content = await holdContent(request, edit)
  const told = new Set([...comment.mentions, ...(await findTold(tx, comment.id))])
  const untold = others(edit.added, comment.authorId).filter((id) => !told.has(id))
  await takeMentions(tx, comment.authorId, untold.length)
  const row = await editComment(tx, { ...comment, mediaIds }, content)
  await tellMentioned(request, row, untold)
  await audit('EVENT_ACTION', event, { operation: 'edit comment', comment_id: formatId('comment', row.id) })
  return show(request, event, row.id, target)
}

/** A caller may delete a comment of an archived event, and one whose target the caller no longer reaches. */
export async function deleteComment(
  request: Write<typeof commentActions.delete>,
  path: CommentPath,
  reason: string | null,
): Promise<void> {
  const { tx, actor, permit, ready, audit } = request
  const { event, comment } = await lockComment(request, path, permit)
  ready(comment)
  await markDeleted(tx, comment.id, { by: actor.userId, reason })
  await audit('COMMENT_DELETE', comment, { event_id: formatId('event', event.id) })
}

type Changing = Pick<Write<typeof commentActions.edit>, 'tx' | 'orgId' | 'actor' | 'member'>

/** In the order of the locks: the event, then the comment. */
async function lockComment(
  { tx, orgId, actor }: Changing,
  { eventId, target, id }: CommentPath,
  permit: (row: FoundComment) => unknown,
): Promise<{ event: EventFor; comment: FoundComment }> {
  const named = { orgId, eventId, id, callerId: actor.userId }
  // Before the lock of the event: see `lockPermitted`.
  permit(found(await findComment(tx, named)))
  const event = found(await findEventFor(tx, orgId, eventId, actor.userId, { lock: 'share' }))
  const comment = found(await findComment(tx, { ...named, lock: 'update' }))
  permit(comment)
  const isThere = comment.deletedAt === null && (await isAbout(tx, comment, target))
  if (!isThere) throw notFound()
  return { event, comment }
}

/** The comment may name the other half of a Live Photo, because it may be older than the pairing. */
async function isAbout(tx: Tx, { orgId, targetType, targetId }: FoundComment, named: Target | undefined) {
  if (named?.type !== targetType) return false
  if (named.id === targetId) return true
  return targetType === 'media' && (await findItemIds(tx, orgId, named.id)).includes(targetId)
}

/** Throws unless every user whom the change mentions for the first time can see the comment, as a member or as a guest. */
async function requireMentionable(
  { tx, orgId }: Changing,
  event: EventRow,
  { audience }: Pick<FoundTarget, 'audience'>,
  { content, added }: Edit,
  { mentions }: Changes,
): Promise<void> {
  if (content.mentions.length > MAX_MENTIONS) {
    throw invalid([{ field: 'body.mentions', issue: `must be at most ${MAX_MENTIONS}, with those of the body` }])
  }
  if (added.length === 0) return
  const able = new Set(await listReaders(tx, { orgId, event, audience, userIds: added }))
  const refused = added.filter((id) => !able.has(id))
  if (refused.length === 0) return
  throw invalid(
    refused.map((id) => {
      const place = mentions?.indexOf(id) ?? -1
      const field = place < 0 ? 'body.body' : `body.mentions.${place}`
      return { field, issue: 'mentions a user who cannot see the comment' }
    }),
  )
}

/** Keeps the media items of the content until the transaction ends. A purge may have removed an attached one before. */
async function holdContent({ tx, orgId, member }: Changing, { content, attached }: Edit): Promise<Edit['content']> {
  // Guests have no media items of the organization, and those that they see are shown to them, not given.
  if (!member && attached.length > 0) throw unavailable(content, attached)
  if (content.mediaIds.length === 0) return content
  const held = await holdAttachments(tx, orgId, content.mediaIds)
  const visible = new Set(held.filter(({ isVisible }) => isVisible).map(({ id }) => id))
  const missing = attached.filter((id) => !visible.has(id))
  if (missing.length > 0) throw unavailable(content, missing)
  const there = new Set(held.map(({ id }) => id))
  return { ...content, mediaIds: content.mediaIds.filter((id) => there.has(id)) }
}

function unavailable({ mediaIds }: Edit['content'], missing: readonly Uuid[]): Problem {
  const details = missing.map((id) => ({
    field: `body.media_ids.${mediaIds.indexOf(id)}`,
    issue: 'is not available',
  }))
  return new Problem('MEDIA_NOT_AVAILABLE', 'A media item is not available', { details })
}

/** Authors who mention themselves are not told. */
const others = (userIds: readonly Uuid[], authorId: Uuid) => userIds.filter((id) => id !== authorId)

async function tellMentioned(
  { announce }: Pick<Write<typeof commentActions.edit>, 'announce'>,
  row: CommentRow,
  userIds: readonly Uuid[],
): Promise<void> {
  const about = { ...idsOf(row), author_id: row.authorId, excerpt: excerptOf(row.body) }
  for (const id of userIds) {
    await announce('USER_MENTIONED', row, { ...about, mentioned_user_id: id })
  }
}

async function show(
  request: Omit<Reading, 'permit'>,
  event: EventFor,
  id: Uuid,
  target: FoundTarget,
  deleted: Deleted = {},
): Promise<Comment> {
  const row = await findShownComment(request.tx, id, { ...threadOf(request, event, target), ...deleted })
  // Throws Denied if it is there and the album hides it: its target may be attached to a comment that the caller sees.
  if (!row) await findTarget(request, event, { type: 'comment', id })
  return toComment(found(row), { ...target, event }, request.now)
}

const idsOf = ({ id, orgId, eventId }: CommentRow) => ({
  comment_id: id,
  event_id: eventId,
  org_id: orgId,
})
