import type { Uuid } from '../../../lib/contract/ids.ts'
import type { AlbumStatus, AlbumVisibility } from '../../db/schema/albums.ts'
import type { EventStatus } from '../../db/schema/events.ts'
import { member, organizationAdmin } from '../../permissions/facts.ts'
import type { Permit } from '../../permissions/permit.ts'
import { type Action, allOf, anyOf, fact, kind, on, onForGuests, onOrganization } from '../../permissions/rule.ts'
import { inOrder, type State } from '../../permissions/state.ts'
import { unlessArchived } from '../events/policy.ts'

/** Who sees an album besides its owner, the owner of its event and the administrators of the organization. */
export type Viewers = 'members' | 'participants' | 'managers'

/** Lists, details, media, events and their comments all use this rule, and no other one. */
export const viewersOf = ({ status, visibility }: Shown): Viewers =>
  status === 'PUBLIC' ? AUDIENCES[visibility] : 'managers'
const AUDIENCES = {
  organization: 'members',
  participants: 'participants',
  private: 'managers',
} as const satisfies Record<AlbumVisibility, Viewers>

type Shown = { status: AlbumStatus; visibility: AlbumVisibility }
/** `eventOwnerId` is null without an event. */
type Owned = { ownerId: Uuid; eventOwnerId: Uuid | null }
/** `isParticipant`: whether the caller has accepted an invitation to the album's event. */
type Visible = Owned & Shown & { isParticipant: boolean }
/** `ownerIsMember`: whether the owner of the album is still a member of its organization. */
type Kept = Owned & { ownerIsMember: boolean }
/** `eventStatus` is null without an event. */
type Joined = Visible & { eventStatus: EventStatus | null }

const albumOwner = fact<Owned>('album_owner', 'the owner of the album', (a, row) => a.userId === row.ownerId)
/** Any member may create the album of an event, which has one album only: so the host must be able to manage it. */
const eventOwner = fact<Owned>('album_event_owner', 'the owner of its event', (a, row) => a.userId === row.eventOwnerId)

const forMembers = fact<Visible>(
  'album_for_members',
  'while it is PUBLIC with visibility `organization`',
  (_, row) => viewersOf(row) === 'members',
)
const forParticipants = fact<Visible>(
  'album_for_participants',
  'while it is PUBLIC with visibility `participants`',
  (_, row) => viewersOf(row) === 'participants',
)
const participant = fact<Visible>(
  'event_participant',
  'users who have accepted an invitation to its event',
  (_, row) => row.isParticipant,
)
const eventPublished = fact<Joined>(
  'album_event_not_draft',
  'once the event is no draft',
  (_, row) => row.eventStatus !== null && row.eventStatus !== 'draft',
)

const ownerLeft = fact<Kept>(
  'album_owner_left',
  'once the owner of the album has left the organization',
  (_, row) => !row.ownerIsMember,
)

const mayManageAlbum = anyOf<Owned>(albumOwner, eventOwner, organizationAdmin)

/**
 * Guests of the event, participants who are no members, see its album while it is for all members, too: its host wants it
 * to be seen by more people than those who take part. An owner who has left is not one of them.
 */
export const mayReadAlbum = anyOf<Joined>(
  allOf<Joined>(member, anyOf<Joined>(mayManageAlbum, forMembers, allOf<Joined>(participant, forParticipants))),
  allOf<Joined>(participant, anyOf<Joined>(forMembers, forParticipants), eventPublished),
)

/** Whether an album in ARCHIVE is read-only. It was not always, so an installation may switch it off for old clients. */
export interface Archive {
  isReadOnly: boolean
}
type Changeable = { eventStatus: EventStatus | null; isReadOnly: boolean }

/** What decides on an album. `isReadOnly` is that of `withArchive`. */
export const ALBUM = kind<Joined & Kept & Changeable>('album')

/** With whether the album is read-only by its own status. */
export const withArchive = <T extends { status: AlbumStatus }>(
  album: T,
  archive: Archive,
): T & Pick<Changeable, 'isReadOnly'> => ({
  ...album,
  isReadOnly: archive.isReadOnly && album.status === 'ARCHIVE',
})

/** Nothing but the status of an archived album changes. */
export const unlessReadOnly: State<Pick<Changeable, 'isReadOnly'>> = ({ isReadOnly }) =>
  isReadOnly ? { code: 'ALBUM_ARCHIVED', message: 'The album is archived and read-only' } : undefined

const whileOpen = inOrder<Changeable>(
  ({ eventStatus }) => (eventStatus === null ? undefined : unlessArchived({ status: eventStatus })),
  unlessReadOnly,
)

/** An album in ARCHIVE stays, also where clients from before the archive was read-only may change it. */
const deleting: State<{ status: AlbumStatus; eventStatus: EventStatus | null }> = ({ status, eventStatus }) => {
  if (status === 'ARCHIVE') return { code: 'ALBUM_ARCHIVED', message: 'The album is archived and read-only' }
  if (eventStatus === null) return undefined
  return { code: 'CONFLICT', message: 'The album belongs to an event, and goes when the event does' }
}

export const albumActions = {
  create: onOrganization('album.create', 'create an album', member),
  list: onOrganization('album.list', 'list the albums of an organization that one can see', member),
  listAll: onOrganization('album.list_all', 'list all albums of an organization', organizationAdmin),
  read: onForGuests(ALBUM, 'album.read', 'see an album and its media items', mayReadAlbum),
  update: on(
    ALBUM,
    'album.update',
    'change an album, its captions and its order, and remove media items',
    mayManageAlbum,
    whileOpen,
  ),
  // Not an archived event: that is refused with its own code.
  delete: on(ALBUM, 'album.delete', 'delete an album', mayManageAlbum, deleting),
  addMedia: on(
    ALBUM,
    'album.add_media',
    'add a media item to an album',
    anyOf<Joined>(
      mayManageAlbum,
      allOf<Joined>(participant, anyOf<Joined>(forMembers, forParticipants), eventPublished),
    ),
    whileOpen,
  ),
  // Otherwise an album whose owner has left would keep its status for ever.
  setStatus: on(
    ALBUM,
    'album.set_status',
    'publish or archive an album',
    anyOf<Kept>(albumOwner, eventOwner, allOf<Kept>(organizationAdmin, ownerLeft)),
  ),
} as const

/** For answers that name the album of an event. */
export const seesAlbum = (can: Permit<Action>['can'], album: Joined): boolean => can(albumActions.read, album)
