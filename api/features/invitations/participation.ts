import { formatId, type Uuid } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { findMembership } from '../../permissions/queries.ts'
import { found } from '../../requests/found.ts'
import { lockPermitted } from '../../requests/lock-permitted.ts'
import type { Write } from '../../requests/request.ts'
import { type EventFor, findEvent, findEventFor } from '../events/queries.ts'
import { deleteParticipation } from './participation-queries.ts'
import type { invitationActions } from './policy.ts'
import { lockInvitationsOf, revokeInvitations } from './revocation-queries.ts'

interface Ended {
  eventId: Uuid
  userId: Uuid
}

export const leaveEvent = (request: Write<typeof invitationActions.leave>, eventId: Uuid): Promise<void> =>
  endParticipation(request, { eventId, userId: request.actor.userId }, 'leave')

export const removeParticipant = (request: Write<typeof invitationActions.removeParticipant>, who: Ended) =>
  endParticipation(request, who, 'remove participant')

type Ending = Write<typeof invitationActions.leave | typeof invitationActions.removeParticipant>

/**
 * Ends the participation of a user, and revokes the invitations that the user could begin another with. An acceptance in
 * progress holds its invitation, so this waits for it and ends the participation that it began.
 */
async function endParticipation(request: Ending, { eventId, userId }: Ended, operation: string): Promise<void> {
  const { tx, orgId, actor, permit, ready, audit } = request
  const event = await lockPermitted(async (lock) => {
    if (lock) found(await findEvent(tx, orgId, eventId, { lock: 'share' }))
    return findEventFor(tx, orgId, eventId, actor.userId)
  }, permit)
  ready(event)
  const open = await lockInvitationsOf(tx, orgId, userId, eventId)
  await revokeInvitations(tx, open)
  const wasThere = await deleteParticipation(tx, eventId, userId)
  if (userId === event.ownerId) await refuseMember(request, event)
  found(wasThere || open.length > 0 || undefined)
  await audit('EVENT_ACTION', event, { operation, user_id: formatId('user', userId) })
}

/**
 * The owner of an event takes part in it while they are a member. Call it after the deletion of the participation: an
 * owner who is becoming a member in another transaction either has the membership now, or begins to take part after this
 * transaction. The membership is read and not locked, because its lock comes before that of a participation.
 */
async function refuseMember({ tx, orgId, actor, admit, permit }: Ending, event: EventFor): Promise<void> {
  const member = await findMembership(tx, orgId, event.ownerId)
  if (!member) return
  // Who leaves was no member when the request began. The rule has no place for members, so it refuses them.
  if (actor.userId === event.ownerId) {
    admit(member)
    permit(event)
  }
  throw new Problem('INVALID_STATE_TRANSITION', 'The owner of an event takes part in it')
}
