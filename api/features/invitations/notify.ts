import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Change } from '../../requests/change.ts'
import { invitationsToTell } from './plan.ts'
import { findEmails, leaveToAnother, listTold, queueToTell, takeUntold } from './told-queries.ts'

/**
 * Announces every pending invitation of the event that was not announced before: when the event becomes active, or when an
 * active event gets an invitation. The transaction must have locked the event. A repeat announces nothing.
 */
export async function tellInvitees({ tx, announce }: Change, event: { id: Uuid; orgId: Uuid }): Promise<void> {
  await queueToTell(tx, event.id)
  const untold = await takeUntold(tx, event.id)
  if (untold.length === 0) return
  const told = await listTold(
    tx,
    event.id,
    untold.map(({ id }) => id),
  )
  const userIds = [...untold, ...told].flatMap(({ userId }) => (userId === null ? [] : [userId]))
  const emails = await findEmails(tx, userIds)
  const toTell = invitationsToTell(untold, told, emails)
  const left = untold.filter((one) => !toTell.includes(one))
  await leaveToAnother(
    tx,
    left.map(({ id }) => id),
  )
  for (const one of toTell) await announceDue(announce, one)
}

interface Due {
  id: Uuid
  orgId: Uuid
  eventId: Uuid
  generation: number
  version: number
}

/** The event names the generation and no link: the sender mints the link when it sends. */
export const announceDue = (announce: Change['announce'], invitation: Due): Promise<void> =>
  announce('InvitationDue', invitation, {
    invitation_id: invitation.id,
    event_id: invitation.eventId,
    org_id: invitation.orgId,
    generation: invitation.generation,
  })
