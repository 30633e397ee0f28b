import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import type { Asked } from '../../requests/request.ts'
import { takesPart } from './queries.ts'

/**
 * Of routes below an event that admit guests: see `isGuest` of `inOrganization`. Before a body is read, the organization
 * alone is known, and any of its events counts.
 */
export const isGuest = (tx: Tx, { orgId, actor, params }: Asked & { params: { event_id?: Uuid } }): Promise<boolean> =>
  takesPart(tx, { orgId, userId: actor.userId, eventId: params.event_id })
