import { formatId } from '../../../lib/contract/ids.ts'
import type { Origin } from '../../audit/queries.ts'
import type { Database } from '../../db/db.ts'
import { changesOf } from '../../requests/change.ts'
import type { Context } from '../../requests/context.ts'
import { canTakeIn } from './inviter.ts'
import { findBySlug } from './link-queries.ts'
import { announceDue } from './notify.ts'
import { findInvitation, lockEventOf } from './queries.ts'
import { takeRenewal } from './renewal-queries.ts'

/**
 * A fresh link for a pending invitation whose link has expired, or nearly. The sender of notifications sends it to the
 * invited address; nothing of it reaches the caller, who knows the slug alone. Does nothing for any other slug, and after
 * a few times a day.
 */
export async function renewLink(
  db: Database,
  slug: string,
  context: Pick<Context, keyof Origin | 'traceparent'>,
): Promise<void> {
  const at = await db.readAtOnce({}, (tx) => findBySlug(tx, slug))
  if (!at) return
  const { id, orgId } = at
  await db.inTransaction({ org: orgId }, async (tx) => {
    // In the order of the locks: the event, then the invitation.
    const event = await lockEventOf(tx, orgId, id)
    if (event?.status !== 'active') return
    // The user decides only whether they are the invitee, which is not asked here.
    const invitation = await findInvitation(tx, { orgId, id, userId: event.ownerId })
    if (!invitation || !(await canTakeIn(tx, event, invitation))) return
    const row = await takeRenewal(tx, at)
    if (!row) return
    const { announce, audit } = changesOf(tx, { orgId, actorId: null, context })
    await audit('EVENT_ACTION', event, { operation: 'renew', invitation_id: formatId('invitation', id) })
    await announceDue(announce, row)
  })
}
