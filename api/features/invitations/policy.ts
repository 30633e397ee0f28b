import type { Uuid } from '../../../lib/contract/ids.ts'
import type { EventStatus } from '../../db/schema/events.ts'
import type { InvitationRow } from '../../db/schema/invitations.ts'
import { organizationAdmin } from '../../permissions/facts.ts'
import { allOf, anyOf, fact, kind, on, onForGuests, type Rule } from '../../permissions/rule.ts'
import { inOrder, type State } from '../../permissions/state.ts'
import { EVENT, eventOwner, mayManageEvent, participant, published, unlessArchived } from '../events/policy.ts'

interface Addressed {
  /** Whether the caller is invited: by user id, verified e-mail address or verified phone number. */
  isInvitee: boolean
  /** Whether the request has the token of the invitation's current generation. */
  isPresented: boolean
}

const invitee = fact<Addressed>(
  'invitee',
  'the invitee, by user id, verified e-mail address or verified phone number',
  (_, row) => row.isInvitee,
)
const tokenHolder = fact<Addressed>(
  'token_holder',
  'callers who present the token of the invitation',
  (_, row) => row.isPresented,
)

interface Sent {
  invitedBy: Uuid
  /** Of the event. */
  ownerId: Uuid
}
const inviter = fact<Sent>('inviter', 'the inviter', (a, row) => a.userId === row.invitedBy)

export const INVITATION_STATES = ['pending', 'expired', 'accepted', 'declined', 'revoked'] as const
export type InvitationState = (typeof INVITATION_STATES)[number]

type Dated = Pick<InvitationRow, 'status'> & {
  /** By the clock of the database. */
  isExpired: boolean
}

/** The state that clients see. It is the token that expires: another one makes the invitation pending again. */
export const stateOf = ({ status, isExpired }: Dated): InvitationState =>
  status === 'pending' && isExpired ? 'expired' : status

type Answerable = Dated & Pick<Addressed, 'isInvitee'> & { eventStatus: EventStatus }

const ofOpenEvent: State<{ eventStatus: EventStatus }> = ({ eventStatus }) => unlessArchived({ status: eventStatus })

/** Whether a response counts. It is the link that expires, and a signed-in invitee needs none. Exported for its test. */
export const whilePending: State<Dated & Pick<Addressed, 'isInvitee'>> = (row) => {
  const state = stateOf(row)
  if (state === 'pending' || (state === 'expired' && row.isInvitee)) return undefined
  return state === 'expired'
    ? { code: 'INVITATION_EXPIRED', message: 'The invitation has expired. Ask for another link.' }
    : { code: 'INVITATION_ALREADY_USED', message: 'This invitation has been answered already' }
}

const answering = inOrder<Answerable>(
  ({ status, eventStatus }) => (eventStatus === 'draft' || status === 'revoked' ? 'gone' : undefined),
  ofOpenEvent,
  whilePending,
)

/** Whether the invitation may get another token. Exported for its test. */
export const whileUnanswered: State<Pick<InvitationRow, 'status'>> = ({ status }) => {
  if (status === 'pending') return undefined
  const why = status === 'revoked' ? 'was revoked. Make another one.' : 'has been answered already'
  return { code: 'INVALID_STATE_TRANSITION', message: `The invitation ${why}` }
}
const reissuing = inOrder<Answerable>(ofOpenEvent, whileUnanswered)

type Taking = typeof participant extends Rule<infer R> ? R : never
/** What an owner was counts only while they are a member: who comes back as a guest can leave as others do. */
const notEventOwner = fact<Taking>(
  'not_event_owner',
  'other than the member who owns it',
  (a, row) => a.role === null || a.userId !== row.ownerId,
)

/** What decides on an invitation, for one user. */
export const INVITATION = kind<Addressed & Sent & Answerable>('invitation')

export const invitationActions = {
  invite: on(EVENT, 'event.invite', 'invite people to an event', mayManageEvent, unlessArchived),
  // Members see who takes part. Addresses, even masked ones, are for those who may invite.
  list: on(EVENT, 'event.list_invitations', 'list the invitations to an event', mayManageEvent),
  respond: onForGuests(
    INVITATION,
    'invitation.respond',
    'respond to an invitation',
    anyOf<Addressed>(invitee, tokenHolder),
    answering,
  ),
  leave: onForGuests(
    EVENT,
    'event.leave',
    'end one’s own participation in an event',
    allOf<Taking>(participant, published, notEventOwner),
    unlessArchived,
  ),
  removeParticipant: on(
    EVENT,
    'event.remove_participant',
    'end the participation of another user in an event',
    mayManageEvent,
    unlessArchived,
  ),
  reissue: on(
    INVITATION,
    'invitation.reissue',
    'replace the token of an invitation',
    anyOf<Sent>(inviter, eventOwner, organizationAdmin),
    reissuing,
  ),
} as const
