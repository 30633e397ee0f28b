import { formatId, type Uuid } from '../../../lib/contract/ids.ts'
import { notFound, Problem } from '../../../lib/contract/problem.ts'
import type { EventRow } from '../../db/schema/events.ts'
import type { InvitationRow } from '../../db/schema/invitations.ts'
import { holdMembership } from '../../permissions/queries.ts'
import { found } from '../../requests/found.ts'
import { lockPermitted } from '../../requests/lock-permitted.ts'
import type { Write } from '../../requests/request.ts'
import { findEvent } from '../events/queries.ts'
import { announceJoined } from '../organizations/commands.ts'
import { findUserById } from '../organizations/queries.ts'
import { mayStillInvite } from './inviter.ts'
import { announceDue, tellInvitees } from './notify.ts'
import {
  declineInvited,
  isMember,
  isParticipating,
  joinOrganization,
  markAccepted,
  markDeclined,
  markInvited,
} from './participation-queries.ts'
import type { invitationActions } from './policy.ts'
import {
  answerInvitation,
  type FoundInvitation,
  findInvitation,
  hasPending,
  insertInvitation,
  lockEventOf,
  type NewInvitation,
  renewInvitation,
} from './queries.ts'
import { newSlug } from './slug.ts'
import { isTokenOf, type TokenContent } from './token.ts'

export type Target = Pick<NewInvitation, 'email' | 'phoneNumber' | 'userId'>

interface Join {
  joinOnAccept: boolean
}

export async function invite(
  request: Write<typeof invitationActions.invite>,
  { eventId, target, message }: { eventId: Uuid; target: Target; message: string | null },
): Promise<InvitationRow> {
  const { tx, orgId, actor, permit, ready, announce, audit } = request
  const event = await lockPermitted((lock) => findEvent(tx, orgId, eventId, lock ? { lock: 'share' } : {}), permit)
  ready(event)
  if (target.userId !== null) await requireInvitable(request, eventId, target.userId)
  const row = await insertNew(request, { orgId, eventId, ...target, message, invitedBy: actor.userId })
  if (row.userId !== null) await markInvited(tx, { eventId, userId: row.userId, orgId })
  const details = { operation: 'create', event_id: formatId('event', eventId) }
  await audit('EVENT_INVITE', row, details)
  if (!(await isMember(tx, orgId, target))) await audit('MEMBER_INVITE', row, details, 'invitation')
  await announce('InvitationCreated', row, {
    invitation_id: row.id,
    event_id: eventId,
    org_id: orgId,
    invited_by: actor.userId,
    invited_user_id: row.userId,
  })
  if (event.status === 'active') await tellInvitees(request, event)
  return row
}

/** Also of people who are not members. Whether they become members or guests of the event is configuration. */
async function requireInvitable(
  { tx }: Write<typeof invitationActions.invite>,
  eventId: Uuid,
  userId: Uuid,
): Promise<void> {
  if (!(await findUserById(tx, userId))) throw notFound('body.uuid')
  if (await isParticipating(tx, eventId, userId)) {
    throw new Problem('ALREADY_INVITED', 'This user takes part in the event already')
  }
}

const SLUG_TRIES = 5

/** Another transaction may insert the same invitee first, so the unique indexes decide, not a query before. */
export async function insertNew(
  { tx }: Pick<Write<typeof invitationActions.invite>, 'tx'>,
  row: Omit<NewInvitation, 'slug'>,
  makeSlug: () => string = newSlug,
): Promise<InvitationRow> {
  for (let tries = 0; tries < SLUG_TRIES; tries++) {
    const made = await insertInvitation(tx, { ...row, slug: makeSlug() })
    if (made) return made
    if (await hasPending(tx, row)) throw new Problem('ALREADY_INVITED', 'This invitee has a pending invitation already')
  }
  throw new Error('found no slug that is not taken')
}

/** The reissuer vouches for the invitee from now on: the first inviter may have left. */
export async function reissue(request: Write<typeof invitationActions.reissue>, id: Uuid): Promise<InvitationRow> {
  const { tx, actor, permit, ready, announce, audit } = request
  const { event, invitation } = await lockInvitation(request, id, permit)
  ready({ ...invitation, eventStatus: event.status })
  const isTold = event.status === 'active'
  const row = await renewInvitation(tx, id, { invitedBy: actor.userId, isTold })
  await audit('EVENT_ACTION', event, { operation: 'reissue', invitation_id: formatId('invitation', id) })
  if (isTold) await announceDue(announce, row)
  return row
}

export interface Response {
  response: 'accept' | 'decline'
  message: string | null
  /** Content of the token in the request, if it has one that this server signed. */
  token: TokenContent | undefined
}

/** One of several responses counts: they queue for the lock of the row, and the later ones find an answer there. */
export async function respond(
  request: Write<typeof invitationActions.respond>,
  id: Uuid,
  { response, message, token, joinOnAccept }: Response & Join,
): Promise<Awaited<ReturnType<typeof answerInvitation>>> {
  const { tx, orgId, actor, permit, ready, audit } = request
  const decide = (row: FoundInvitation) => permit({ ...row, isPresented: isTokenOf(row, token) })
  const { event, invitation } = await lockInvitation(request, id, decide)
  ready({ ...invitation, eventStatus: event.status })
  const status = response === 'accept' ? 'accepted' : 'declined'
  // Before the answer, which holds the account of the caller: closing the account locks them in this order.
  const isHere = await holdMembership(tx, orgId, actor.userId)
  const row = await answerInvitation(tx, id, { status, respondedBy: actor.userId, responseMessage: message })
  if (status === 'accepted') await takePart(request, event, invitation, { isHere, joinOnAccept })
  else await stayAway(request, event, isHere)
  await audit('EVENT_ACTION', event, { operation: response, invitation_id: formatId('invitation', id) })
  return row
}

/**
 * The membership before the participation: leaving deletes the membership, and the participation with it. In the other
 * order a leave in progress would miss the new participation.
 */
async function takePart(
  request: Write<typeof invitationActions.respond>,
  event: EventRow,
  invitation: FoundInvitation,
  { isHere, joinOnAccept }: { isHere: boolean } & Join,
): Promise<void> {
  const { tx, orgId, actor } = request
  if (!isHere) {
    if (!(await mayStillInvite(tx, event, invitation.invitedBy))) {
      throw new Problem('INVALID_STATE_TRANSITION', 'The inviter may no longer invite. Ask for another invitation.')
    }
    // Otherwise the participation alone makes the caller a guest of this event.
    if (joinOnAccept) await join(request)
  }
  await markAccepted(tx, { eventId: event.id, userId: actor.userId, orgId })
}

async function join({ tx, orgId, actor, announce, audit }: Write<typeof invitationActions.respond>): Promise<void> {
  const { isNew, joinedAt } = await joinOrganization(tx, orgId, actor.userId)
  if (!isNew) return
  await announceJoined(announce, { orgId, userId: actor.userId }, joinedAt)
  await audit('MEMBER_INVITE', { id: actor.userId }, { operation: 'accept' })
}

/** A user who is neither a member nor invited by user id is in the list of invitations only. */
async function stayAway(
  { tx, orgId, actor }: Write<typeof invitationActions.respond>,
  event: EventRow,
  isHere: boolean,
): Promise<void> {
  if (isHere) {
    await markDeclined(tx, { eventId: event.id, userId: actor.userId, orgId })
  } else await declineInvited(tx, event.id, actor.userId)
}

/** In the order of the locks: the event, then the invitation. */
async function lockInvitation(
  { tx, orgId, actor }: Pick<Write<typeof invitationActions.respond>, 'tx' | 'orgId' | 'actor'>,
  id: Uuid,
  decide: (row: FoundInvitation) => unknown,
): Promise<{ event: EventRow; invitation: FoundInvitation }> {
  const wanted = { orgId, id, userId: actor.userId }
  // Before the lock of the event: see `lockPermitted`.
  decide(found(await findInvitation(tx, wanted)))
  const event = found(await lockEventOf(tx, orgId, id))
  const invitation = found(await findInvitation(tx, { ...wanted, lock: true }))
  decide(invitation)
  return { event, invitation }
}
