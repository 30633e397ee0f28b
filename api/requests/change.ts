import type { EventPayload, EventType } from '../../lib/contract/events.ts'
import type { Uuid } from '../../lib/contract/ids.ts'
import { type AuditAction, type AuditDetails, insertAudit, type Origin } from '../audit/queries.ts'
import type { Tx } from '../db/db.ts'
import { appendEvent } from '../outbox/queries.ts'
import type { Context } from './context.ts'

/** Event and audit entry of a change, bound to its transaction and to the request. */
export interface Change {
  tx: Tx
  /** Announces the change; `row` has the version after the change. */
  announce<T extends EventType>(type: T, row: Versioned, payload: EventPayload<T>): Promise<void>
  /** Records the change, with ids and operations only. `resourceType` overrides the kind of the action. */
  audit(action: AuditAction, row: { id: Uuid }, details?: AuditDetails, resourceType?: string): Promise<void>
}
export interface Versioned {
  id: Uuid
  orgId: Uuid
  version: number
}

/** Changes without a request: the command line, tests. */
export const changesOf = (
  tx: Tx,
  who: { orgId: Uuid; actorId: Uuid | null; context: ChangeContext | null },
): Change => ({
  tx,
  async announce(type, row, payload) {
    const { id: aggregateId, orgId, version: aggregateVersion } = row
    const traceparent = who.context?.traceparent ?? null
    await appendEvent(tx, { orgId, aggregateId, aggregateVersion, type, payload, traceparent })
  },
  async audit(action, row, details, resourceType) {
    const given = { ...(details && { details }), ...(resourceType && { resourceType }) }
    await insertAudit(tx, { ...who, action, resourceId: row.id, result: 'success', ...given })
  },
})
type ChangeContext = Origin & Pick<Context, 'traceparent'>
