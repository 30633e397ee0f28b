import type { Uuid } from '../../lib/contract/ids.ts'
import { albumActions } from '../albums/policy.ts'
import { findAlbum, findAlbumWithMedia } from '../albums/queries.ts'
import type { Tx } from '../db/db.ts'
import type { Audience } from '../db/schema/comments.ts'
import type { EventRow } from '../db/schema/events.ts'
import { eventActions } from '../events/policy.ts'
import type { Read } from '../http/in-organization.ts'
import { type Asking as Asker, decide } from '../permissions/rule.ts'
import type { Target } from './comment.ts'
import { audienceOf } from './policy.ts'
import { type FoundComment, findAccepted, findAlbumOfEvent, findAttached, findComment, findMembers } from './queries.ts'

/** What a comment or a reaction is about, as the caller reaches it. */
export interface FoundTarget extends Target {
  /** For whom comments on it are. */
  audience: Audience
  /** Whose comments the caller sees there. */
  sees: readonly Audience[]
  /** The media item that its thread is about. */
  mediaId: Uuid | null
  /** Of a comment: the row, which may be deleted. */
  comment?: FoundComment
}

type Asking = Pick<Read<'comment.read'>, 'tx' | 'orgId' | 'actor' | 'can'>
type Place = Pick<FoundTarget, 'audience' | 'sees' | 'mediaId'>

const THE_EVENT: Place = { audience: 'event', sees: ['event'], mediaId: null }

/**
 * The target, unless the caller cannot see it. The caller must be allowed to see the event. With `lock`, a comment cannot
 * be deleted before the transaction ends: so there are no new replies to a deleted one.
 */
export async function findTarget(
  asking: Asking,
  event: EventRow,
  target: Target,
  o: { lock?: boolean } = {},
): Promise<FoundTarget | undefined> {
  if (target.type === 'meta') return target.id === event.id ? { ...target, ...THE_EVENT } : undefined
  if (target.type === 'media') {
    const place = await placeOf(asking, event, target.id)
    return place && { ...target, ...place }
  }
  const { tx, orgId } = asking
  const comment = await findComment(tx, { orgId, eventId: event.id, id: target.id, ...(o.lock && { lock: 'share' }) })
  if (!comment) return undefined
  const place = comment.mediaId === null ? THE_EVENT : await placeOf(asking, event, comment.mediaId)
  // What is said about a comment is for those for whom the comment is.
  if (!place?.sees.includes(comment.audience)) return undefined
  return { ...target, ...place, audience: comment.audience, comment }
}

async function placeOf(asking: Asking, event: EventRow, mediaId: Uuid): Promise<Place | undefined> {
  const { tx, orgId } = asking
  const attachedFor = await findAttached(tx, { orgId, eventId: event.id, id: mediaId })
  if (!attachedFor) return undefined
  const { seesAlbum, isInAlbum } = await lookIntoAlbum(asking, event, mediaId)
  const audience = audienceOf({ isInAlbum, attachedFor }, seesAlbum)
  return audience && { audience, sees: seesAlbum ? ['event', 'album'] : ['event'], mediaId }
}

/** Those of these users who are members and can see comments for this audience. */
export async function listReaders(
  tx: Tx,
  { orgId, event, audience, userIds }: { orgId: Uuid; event: EventRow; audience: Audience; userIds: readonly Uuid[] },
): Promise<Uuid[]> {
  const members = await findMembers(tx, orgId, userIds)
  const seesAlbum = audience === 'album' ? await albumReaders(tx, orgId, event.id, userIds) : () => true
  return members.flatMap(({ userId, role }) => {
    const asking = { userId, role, platformAdmin: false }
    const seesEvent = decide(eventActions['event.read'], asking, event) === 'allowed'
    return seesEvent && seesAlbum(asking) ? [userId] : []
  })
}

/** Which of these users see the album of the event: asked once for all of them. */
async function albumReaders(tx: Tx, orgId: Uuid, eventId: Uuid, userIds: readonly Uuid[]) {
  const album = await findAlbumOfEvent(tx, orgId, eventId)
  const accepted = new Set(await findAccepted(tx, eventId, userIds))
  return (asking: Asker) => {
    if (!album) return false
    const seen = { ...album, isParticipant: accepted.has(asking.userId) }
    return decide(albumActions['album.read'], asking, seen) === 'allowed'
  }
}

/** Whether the caller sees the album of the event, and whether the media item is in it. */
async function lookIntoAlbum({ tx, orgId, actor, can }: Asking, { id: eventId }: EventRow, mediaId: Uuid) {
  const id = (await findAlbumOfEvent(tx, orgId, eventId))?.id
  const album = id && (await findAlbum(tx, { orgId, id, callerId: actor.userId }))
  if (!album || !can('album.read', album)) return { seesAlbum: false, isInAlbum: false }
  const holding = await findAlbumWithMedia(tx, { orgId, eventId, mediaId, callerId: actor.userId })
  return { seesAlbum: true, isInAlbum: holding !== undefined }
}
