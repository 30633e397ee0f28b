import { formatId, type Uuid } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { found } from '../../requests/found.ts'
import { lockPermitted } from '../../requests/lock-permitted.ts'
import type { Write } from '../../requests/request.ts'
import { findEvent, findEventFor } from '../events/queries.ts'
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

/**
 * Ends the participation of a user, and revokes the invitations that the user could begin another with. An acceptance in
 * progress holds its invitation, so this waits for it and ends the participation that it began.
 */
async function endParticipation(
  request: Write<typeof invitationActions.leave | typeof invitationActions.removeParticipant>,
  { eventId, userId }: Ended,
  operation: string,
): Promise<void> {
  const { tx, orgId, actor, permit, ready, audit } = request
  const event = await lockPermitted(async (lock) => {
    if (lock) found(await findEvent(tx, orgId, eventId, { lock: 'share' }))
    return findEventFor(tx, orgId, eventId, actor.userId)
  }, permit)
  ready(event)
  if (userId === event.ownerId) throw new Problem('INVALID_STATE_TRANSITION', 'The owner of an event takes part in it')
  const open = await lockInvitationsOf(tx, orgId, userId, eventId)
  await revokeInvitations(tx, open)
  found((await deleteParticipation(tx, eventId, userId)) || open.length > 0 || undefined)
  await audit('EVENT_ACTION', event, { operation, user_id: formatId('user', userId) })
}
