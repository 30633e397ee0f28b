import type { Uuid } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import type { InvitationRow } from '../../db/schema/invitations.ts'
import { organizationAdmin } from '../../permissions/facts.ts'
import { anyOf, fact, on, onForGuests } from '../../permissions/rule.ts'
import { eventOwner, mayManageEvent } from '../events/policy.ts'

interface Addressed {
  userId: Uuid | null
  email: string | null
  /** The caller's verified e-mail address, in lower case. */
  callerEmail: string | null
  /** Whether the request has the token of the invitation's current generation. */
  isPresented: boolean
}

const invitee = fact<Addressed>(
  'invitee',
  'the invitee, by user id or verified e-mail address',
  (a, row) => row.userId === a.userId || (row.email !== null && row.email === row.callerEmail),
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

export const invitationActions = {
  invite: on('event', 'event.invite', 'invite people to an event', mayManageEvent),
  // Members see who takes part. Addresses, even masked ones, are for those who may invite.
  list: on('event', 'event.list_invitations', 'list the invitations to an event', mayManageEvent),
  respond: onForGuests(
    'invitation',
    'invitation.respond',
    'respond to an invitation',
    anyOf<Addressed>(invitee, tokenHolder),
  ),
  reissue: on(
    'invitation',
    'invitation.reissue',
    'replace the token of an invitation',
    anyOf<Sent>(inviter, eventOwner, organizationAdmin),
  ),
} as const

export const INVITATION_STATES = ['pending', 'expired', 'accepted', 'declined', 'revoked'] as const
export type InvitationState = (typeof INVITATION_STATES)[number]

type Dated = Pick<InvitationRow, 'status'> & {
  /** By the clock of the database. */
  isExpired: boolean
}

/** The state that clients see. It is the token that expires: another one makes the invitation pending again. */
export const stateOf = ({ status, isExpired }: Dated): InvitationState =>
  status === 'pending' && isExpired ? 'expired' : status

/** Throws unless a response counts. Call it on the row that the transaction locked. */
export function requireOpen(row: Dated): void {
  const state = stateOf(row)
  if (state === 'pending') return
  if (state === 'expired') throw new Problem('INVITATION_EXPIRED', 'The invitation has expired. Ask for another link.')
  throw new Problem('INVITATION_ALREADY_USED', 'This invitation has been answered already')
}

/** Throws unless the invitation may get another token. Call it on the row that the transaction locked. */
export function requireUnanswered({ status }: Pick<InvitationRow, 'status'>): void {
  if (status === 'pending') return
  const why = status === 'revoked' ? 'was revoked. Make another one.' : 'has been answered already'
  throw new Problem('INVALID_STATE_TRANSITION', `The invitation ${why}`)
}
