import type { Society, User } from '../../../../support/society.ts'
import { albumOfEvent, seesAlbum, shownPlaces } from '../../albums/society.ts'
import { type Event, seesEvent } from '../../events/society.ts'
import type { Item } from '../../media/society.ts'

/** What something is said about: an event, a comment or a media item. */
export type Target = Event | Comment | Item

export interface Comment {
  wireId: string
  event: Event
  about: Target
  by: User
  body: string
  attached: Item[]
  mentions: User[]
  isForAlbum: boolean
  isDeleted: boolean
}
export interface Reaction {
  event: Event
  to: Target
  by: User
  emoji: string
  /** Of the answer. */
  id: string
  isForAlbum: boolean
}
/** What was said, oldest first. `isForAlbum`: only for those who see the album of the event. */
export interface Said {
  comments: Comment[]
  reactions: Reaction[]
}

export const isComment = (target: Target): target is Comment => 'body' in target
const isItem = (target: Target): target is Item => 'uploader' in target
export const typeOf = (target: Target) => (isComment(target) ? 'comment' : isItem(target) ? 'media' : 'meta')

/** Whether a comment or a reaction is for the caller, who sees the event. */
export const hears = (society: Society, who: User, event: Event, { isForAlbum }: { isForAlbum: boolean }): boolean =>
  seesEvent(society, who, event) && (!isForAlbum || seesAlbumOf(society, who, event))

function seesAlbumOf(society: Society, who: User, event: Event): boolean {
  const album = albumOfEvent(society, event)
  return album !== undefined && seesAlbum(society, who, album)
}

/**
 * Where the caller comes across a media item at an event: in the album of the event, if they see that, or attached to a
 * comment that they may hear of. What they then say is for those who see the album if they found it there, or in what is
 * said there.
 */
function findItem(
  society: Society,
  said: Said,
  who: User,
  event: Event,
  item: Item,
): { isForAlbum: boolean } | undefined {
  if (item.organization !== event.organization || item.deleted || !seesEvent(society, who, event)) return undefined
  const isIt = (one: Item) => one === item || one === item.half
  const album = seesAlbumOf(society, who, event) ? albumOfEvent(society, event) : undefined
  const isInAlbum = album !== undefined && shownPlaces(album).some((place) => isIt(place.item))
  const attachedTo = said.comments.filter(
    (one) => one.event === event && !one.isDeleted && hears(society, who, event, one) && one.attached.some(isIt),
  )
  if (!isInAlbum && attachedTo.length === 0) return undefined
  return { isForAlbum: isInAlbum || attachedTo.some((one) => one.isForAlbum) }
}

/** For whom it is what the caller says about the target; undefined if they do not come across it. */
export function find(
  society: Society,
  said: Said,
  who: User,
  event: Event,
  target: Target,
): { isForAlbum: boolean } | undefined {
  if (isItem(target)) return findItem(society, said, who, event, target)
  if (!isComment(target)) return target === event && seesEvent(society, who, event) ? { isForAlbum: false } : undefined
  if (target.event !== event || !hears(society, who, event, target)) return undefined
  const item = isComment(target.about) ? target.about.about : target.about
  return isItem(item) && !findItem(society, said, who, event, item) ? undefined : target
}

/** What is said about either half of a Live Photo is said about its image. */
export const itself = (target: Target): Target =>
  isItem(target) && target.kind === 'video' ? (target.half ?? target) : target
