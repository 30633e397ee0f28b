import { formatId, type Uuid } from '../../../lib/contract/ids.ts'
import { insertAudit } from '../../audit/queries.ts'
import type { Tx } from '../../db/db.ts'
import { findEvent } from '../events/queries.ts'
import { canTakeIn } from './inviter.ts'
import { lockEventOf } from './queries.ts'
import { findToSend, lockGeneration, renewToken } from './sending-queries.ts'

/** A link that ends sooner is renewed: the invitee would find it dead, or die while they read. */
const LASTS_SECONDS = 15 * 60

export interface ToSend {
  id: Uuid
  slug: string
  /** That of the link to send, which is another one after a renewal. */
  generation: number
  tokenExpiresAt: Date
  message: string | null
  eventId: Uuid
  title: string
  startsAt: Date
  place: string | null
  hostName: string | null
  inviterName: string | null
}

/**
 * The invitation for a message that leaves after the commit, with a link that works. A link that has expired, or nearly,
 * gets another generation, in the name of the same inviter; one that may have arrived already (`isOut`) only when it has
 * expired, because the renewal ends it. Undefined unless the invitation still has this generation, can be answered, and
 * its inviter may still invite.
 */
export async function invitationToSend(
  tx: Tx,
  { isOut, ...wanted }: { orgId: Uuid; id: Uuid; generation: number; isOut: boolean },
): Promise<ToSend | undefined> {
  const found = await findToSend(tx, { ...wanted, lastsSeconds: isOut ? 0 : LASTS_SECONDS })
  const about = found && (await findEvent(tx, wanted.orgId, found.eventId))
  if (!about || !(await canTakeIn(tx, about, found))) return undefined
  if (found.lasts) return found
  // In the order of the locks: the event, then the invitation. A response or a reissue may have come first.
  const event = await lockEventOf(tx, wanted.orgId, wanted.id)
  if (event?.status !== 'active' || !(await lockGeneration(tx, wanted))) return undefined
  const renewed = await renewToken(tx, wanted.id)
  await insertAudit(tx, {
    orgId: wanted.orgId,
    actorId: null,
    action: 'EVENT_ACTION',
    resourceId: event.id,
    result: 'success',
    context: null,
    details: { operation: 'renew', invitation_id: formatId('invitation', wanted.id) },
  })
  return { ...found, ...renewed }
}
