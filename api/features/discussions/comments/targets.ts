import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import type { Audience } from '../../../db/schema/comments.ts'
import type { EventRow } from '../../../db/schema/events.ts'
import { decide } from '../../../permissions/rule.ts'
import type { Read } from '../../../requests/request.ts'
import { findAlbumWithMedia } from '../../albums/item-queries.ts'
import { albumActions } from '../../albums/policy.ts'
import { findAlbum, type SeenAlbum } from '../../albums/queries.ts'
import { eventActions } from '../../events/policy.ts'
import type { ItemIds } from '../../media/pairing-plan.ts'
import type { Target } from './comment.ts'
import { audienceOf, type commentActions } from './policy.ts'
import {
  type FoundComment,
  findAccepted,
  findAlbumOfEvent,
  findAttached,
  findComment,
  findMembers,
  findPlaces,
} from './queries.ts'

/** What a comment or a reaction is about, as the caller reaches it. */
export interface FoundTarget extends Target, Reach {
  /** Of a Live Photo also the video, on which there may be comments and reactions from before the pairing. */
  ids: ItemIds
  /** Of a comment: the row, which may be deleted. */
  comment?: FoundComment
}

interface Reach {
  /** The audience of the comments that the caller writes there. */
  audience: Audience
  /** The audiences of the comments that the caller sees there. */
  sees: readonly Audience[]
  /** The media item that the thread is about. */
  mediaId: Uuid | null
}

interface FindOptions {
  /** Keeps a comment from being deleted before the transaction ends, so that a deleted one gets no replies. */
  lock?: boolean
  /** What names the target in a body. */
  field?: string
}

type Asking = Pick<Read<typeof commentActions.read>, 'tx' | 'orgId' | 'actor' | 'can' | 'permitAlso'>

const THE_EVENT: Reach = { audience: 'event', sees: ['event'], mediaId: null }

/**
 * The target, unless the caller cannot see it; throws Denied where the album of the event hides it. The caller must be
 * allowed to see the event. Either half of a Live Photo is the Live Photo, by the id of its image.
 */
export async function findTarget(
  asking: Asking,
  event: EventRow,
  { type, id }: Target,
  { lock = false, field }: FindOptions = {},
): Promise<FoundTarget | undefined> {
  if (type === 'meta') return id === event.id ? { type, id, ids: [id], ...THE_EVENT } : undefined
  if (type === 'media') {
    const found = await reachOf(asking, event, id, field)
    return found && { type, id: found.ids[0], ids: found.ids, ...found.reach }
  }
  const { tx, orgId, actor, permitAlso } = asking
  const comment = await findComment(tx, {
    orgId,
    eventId: event.id,
    id,
    callerId: actor.userId,
    ...(lock && { lock: 'share' }),
  })
  if (!comment) return undefined
  const found =
    comment.mediaId === null
      ? { reach: THE_EVENT, album: undefined }
      : await reachOf(asking, event, comment.mediaId, field)
  if (!found) return undefined
  const { reach, album } = found
  const { audience } = comment
  // Comments on a comment, and reactions to it, have the audience of that comment.
  if (reach.sees.includes(audience)) return { type, id, ids: [id], ...reach, audience, comment }
  if (album) permitAlso(albumActions.read, album, field)
  return undefined
}

interface FoundReach {
  reach: Reach
  ids: ItemIds
  /** Of the event. */
  album: SeenAlbum | undefined
}

async function reachOf(
  { tx, orgId, actor, can, permitAlso }: Asking,
  { id: eventId }: EventRow,
  id: Uuid,
  field: string | undefined,
): Promise<FoundReach | undefined> {
  const item = await findAttached(tx, { orgId, eventId, id })
  if (!item) return undefined
  const { ids, attachedFor } = item
  const [mediaId] = ids
  const asked = { orgId, eventId, callerId: actor.userId }
  const album = await albumOf(tx, asked)
  const isInAlbum = album !== undefined && (await findAlbumWithMedia(tx, { ...asked, mediaId })) !== undefined
  const seesAlbum = album !== undefined && can(albumActions.read, album)
  const audience = audienceOf({ isInAlbum, attachedFor }, seesAlbum)
  if (audience) return { reach: { audience, sees: seesAlbum ? ['event', 'album'] : ['event'], mediaId }, ids, album }
  if (album && (isInAlbum || attachedFor.includes('album'))) permitAlso(albumActions.read, album, field)
  return undefined
}

/** Returns the users who can see comments for this audience: members, and guests of the event. */
export async function listReaders(
  tx: Tx,
  { orgId, event, audience, userIds }: { orgId: Uuid; event: EventRow; audience: Audience; userIds: readonly Uuid[] },
): Promise<Uuid[]> {
  const [members, accepted, album] = await Promise.all([
    findMembers(tx, orgId, userIds),
    findAccepted(tx, event.id, userIds),
    audience === 'album' ? findAlbumOfEvent(tx, orgId, event.id) : undefined,
  ])
  const roles = new Map(members.map(({ userId, role }) => [userId, role]))
  const participants = new Set(accepted)
  return userIds.filter((userId) => {
    const asking = { userId, role: roles.get(userId) ?? null, platformAdmin: false }
    const isParticipant = participants.has(userId)
    if (decide(eventActions.read, asking, { ...event, isParticipant }) !== 'allowed') return false
    if (audience === 'event') return true
    const seen = album && { ...album, isParticipant, eventOwnerId: event.ownerId, eventStatus: event.status }
    return seen !== undefined && decide(albumActions.read, asking, seen) === 'allowed'
  })
}

/** Whether an event shows a media item to this user as its guest: to comment on it is the same right. */
export async function isShownToGuest(tx: Tx, asked: { orgId: Uuid; mediaId: Uuid; userId: Uuid }): Promise<boolean> {
  const asking = { userId: asked.userId, role: null, platformAdmin: false }
  return (await findPlaces(tx, asked)).some(({ event, album, isInAlbum, attachedFor }) => {
    if (decide(eventActions.read, asking, { ...event, isParticipant: true }) !== 'allowed') return false
    const seen = album && { ...album, isParticipant: true, eventOwnerId: event.ownerId, eventStatus: event.status }
    const seesAlbum = seen !== null && decide(albumActions.read, asking, seen) === 'allowed'
    return audienceOf({ isInAlbum, attachedFor }, seesAlbum) !== undefined
  })
}

/** The album of the event, with what decides whether the caller may see it. */
async function albumOf(tx: Tx, { eventId, ...asked }: { orgId: Uuid; eventId: Uuid; callerId: Uuid }) {
  const album = await findAlbumOfEvent(tx, asked.orgId, eventId)
  return album && findAlbum(tx, { ...asked, id: album.id })
}
