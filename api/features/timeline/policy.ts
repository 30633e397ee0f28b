import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Role } from '../../../lib/contract/roles.ts'
import type { AlbumRow } from '../../db/schema/albums.ts'
import type { Audience } from '../../db/schema/comments.ts'
import type { EventRow } from '../../db/schema/events.ts'
import type { TimelineItemRow } from '../../db/schema/timeline.ts'
import { member, signedIn } from '../../permissions/facts.ts'
import { decide, onCaller, onOrganization } from '../../permissions/rule.ts'
import { albumActions } from '../albums/policy.ts'
import { eventActions } from '../events/policy.ts'

export const timelineActions = {
  readFeed: onCaller('timeline.read_feed', 'read the feed of all their organizations', signedIn),
  // A user who shares no organization with the caller does not exist for them.
  readUser: onCaller(
    'timeline.read_user',
    'read what a user whom they are connected with did in organizations that they share',
    signedIn,
  ),
  readOrganization: onOrganization('timeline.read', 'read the timeline of an organization', member),
} as const

type EventFacts = Pick<EventRow, 'ownerId' | 'status'>
type AlbumFacts = Pick<AlbumRow, 'ownerId' | 'status' | 'visibility'> & { isParticipant: boolean }

/** An item, and what it is about as it is now; null where that is gone. */
export interface ItemFacts extends Pick<TimelineItemRow, 'type' | 'refType' | 'eventId' | 'albumId'> {
  /** Of the reader. */
  role: Role
  event: EventFacts | null
  /** The album of the item, or that of its event. */
  album: AlbumFacts | null
  /** Of comments, reactions and memberships. */
  about: { audience?: Audience } | null
  /** How many media items there are to show. */
  total: number
}

/** Whether the reader may see what the item is about: by the rules of events and albums, and no other ones. */
export function seesItem(item: ItemFacts, userId: Uuid): boolean {
  const asking = { userId, role: item.role, platformAdmin: false }
  const { event, album, about } = item
  const ofEvent = { eventOwnerId: event?.ownerId ?? null, eventStatus: event?.status ?? null }
  const seesAlbum = () => album !== null && decide(albumActions.read, asking, { ...album, ...ofEvent }) === 'allowed'
  if (item.eventId !== null && !(event && decide(eventActions.read, asking, event) === 'allowed')) return false
  if (item.albumId !== null && !seesAlbum()) return false
  if (about?.audience === 'album' && !seesAlbum()) return false
  if (countsMedia(item)) return item.total > 0
  return LASTING.includes(item.refType) ? item.type !== 'member_joined' || about !== null : about !== null
}

/** What is there as long as its event, its album or its organization is. */
const LASTING: readonly string[] = ['event', 'album', 'user']

const countsMedia = (item: Pick<ItemFacts, 'type' | 'refType'> & { change?: string | null }) =>
  item.refType === 'media' || item.change === 'media_added'
