import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import type { EventRow } from '../../db/schema/events.ts'
import type { InvitationRow } from '../../db/schema/invitations.ts'
import { findMembership } from '../../permissions/queries.ts'
import { decide } from '../../permissions/rule.ts'
import { isMember } from './participation-queries.ts'
import { invitationActions } from './policy.ts'

/** The invitation of a user who has left, or is no longer an administrator, makes no members. */
export async function mayStillInvite(tx: Tx, event: EventRow, invitedBy: Uuid): Promise<boolean> {
  const inviter = await findMembership(tx, event.orgId, invitedBy)
  const asking = { userId: invitedBy, role: inviter?.role ?? null, platformAdmin: false }
  return decide(invitationActions.invite, asking, event) === 'allowed'
}

type Invited = Pick<InvitationRow, 'invitedBy' | 'userId' | 'email' | 'phoneNumber'>

/** Whether an acceptance would take the invitee in: messages in the name of a user who was removed are not sent. */
export const canTakeIn = async (tx: Tx, event: EventRow, invitation: Invited): Promise<boolean> =>
  (await isMember(tx, event.orgId, invitation)) || (await mayStillInvite(tx, event, invitation.invitedBy))
