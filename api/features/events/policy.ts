import type { Uuid } from '../../../lib/contract/ids.ts'
import type { AlbumStatus } from '../../db/schema/albums.ts'
import type { EventStatus } from '../../db/schema/events.ts'
import { member, organizationAdmin, signedIn } from '../../permissions/facts.ts'
import { allOf, anyOf, fact, kind, on, onCaller, onForGuests, onOrganization } from '../../permissions/rule.ts'
import { inOrder, requireState, type State } from '../../permissions/state.ts'
import { ACTIVATE_MOVES, ARCHIVE_MOVES } from './plan.ts'

type Owned = { ownerId: Uuid }
/** `isParticipant`: whether the caller has accepted an invitation; absent where only members ask. */
type Visible = Owned & { status: EventStatus; isParticipant?: boolean }

export const eventOwner = fact<Owned>('event_owner', 'the owner of the event', (a, row) => a.userId === row.ownerId)

export const published = fact<Visible>('event_not_draft', 'once it is no draft', (_, row) => row.status !== 'draft')

export const participant = fact<Visible>(
  'event_participant',
  'users who have accepted an invitation to it',
  (_, row) => row.isParticipant === true,
)

export const mayManageEvent = anyOf<Owned>(eventOwner, organizationAdmin)

/**
 * Of the members, the owner and the administrators alone see a draft. Guests of the event are participants who are no
 * members; an owner who has left is not one of them.
 */
export const mayReadEvent = anyOf<Visible>(
  allOf<Visible>(member, anyOf<Visible>(eventOwner, organizationAdmin, published)),
  allOf<Visible>(participant, published),
)

/** What decides on an event. */
export const EVENT = kind<Visible & Deletable>('event')
/** `albumStatus` is null without an album. */
type Deletable = { status: EventStatus; albumStatus: AlbumStatus | null }

/** An archived event, and everything that belongs to it, is read-only. */
export const unlessArchived: State<{ status: EventStatus }> = ({ status }) =>
  status === 'archived' ? { code: 'EVENT_ARCHIVED', message: 'The event is archived and read-only' } : undefined

const moving =
  (moves: typeof ACTIVATE_MOVES | typeof ARCHIVE_MOVES, message: string): State<{ status: EventStatus }> =>
  ({ status }) => {
    if (moves[status] === 'refuse') return { code: 'INVALID_STATE_TRANSITION', message }
    return moves[status] === 'nothing' ? 'done' : undefined
  }
const activating = moving(ACTIVATE_MOVES, 'An archived event cannot be activated')
const archiving = moving(ARCHIVE_MOVES, 'Only an active event can be archived; activate it first')

const deleting = inOrder<Deletable>(
  unlessArchived,
  ({ status }) =>
    status === 'draft'
      ? undefined
      : { code: 'INVALID_STATE_TRANSITION', message: 'Only a draft can be deleted. Archive the event instead.' },
  ({ albumStatus }) =>
    albumStatus === 'ARCHIVE' ? { code: 'ALBUM_ARCHIVED', message: 'The album of the event is archived' } : undefined,
)

export const eventActions = {
  create: onOrganization('event.create', 'create an event', member),
  list: onOrganization('event.list', 'list the events of an organization', member),
  listDrafts: onOrganization('event.list_drafts', 'see the drafts of others in lists', organizationAdmin),
  read: onForGuests(EVENT, 'event.read', 'see an event and its participants', mayReadEvent),
  listOwn: onCaller('event.list_own', 'list the events that they take part in', signedIn),
  update: on(EVENT, 'event.update', 'change an event', mayManageEvent, unlessArchived),
  activate: on(EVENT, 'event.activate', 'activate an event', mayManageEvent, activating),
  archive: on(EVENT, 'event.archive', 'archive an event', mayManageEvent, archiving),
  delete: on(EVENT, 'event.delete', 'delete a draft of an event', mayManageEvent, deleting),
} as const

/** For actions on a resource that does not exist yet, such as a new album of the event. Call it with the locked event. */
export const refuseArchived = (event: { status: EventStatus }) => requireState(unlessArchived, event)
