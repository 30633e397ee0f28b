import { newUuid, type Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { auditLog } from '../db/schema/audit.ts'
import type { Context } from '../http/route.ts'

/**
 * Interface specification §6.3 with the kind of resource that each action is about; grows with the features.
 * ACCESS_DENIED is additive: what the permission service refused.
 */
export const AUDIT_ACTIONS = {
  LOGIN: 'session',
  LOGOUT: 'session',
  TOKEN_REFRESH: 'session',
  SESSION_REVOKE: 'session',
  MEDIA_UPLOAD: 'media',
  MEDIA_DELETE: 'media',
  MEMBER_INVITE: 'user',
  ADMIN_ACTION: 'user',
  ACCESS_DENIED: 'permission',
} as const
export type AuditAction = keyof typeof AUDIT_ACTIONS

/** Ids and operations, never names or addresses of people: the log outlives their erasure. */
export type AuditDetails = Record<string, string | number | boolean | null>

export interface AuditEntry {
  orgId: Uuid | null
  /** Null without a signed-in person: the command line, scheduled work. */
  actorId: Uuid | null
  action: AuditAction
  /** Where it is another one than the action's own. */
  resourceType?: string
  resourceId: Uuid | null
  result: 'success' | 'failure' | 'denied'
  /** The request it happened in; null outside of one. */
  context: Pick<Context, 'requestId' | 'ip' | 'userAgent'> | null
  details?: AuditDetails
}

/** Records an entry in the transaction of what it records: either both happened or neither. */
export async function insertAudit(tx: Tx, entry: AuditEntry): Promise<void> {
  const { context, details, resourceType = AUDIT_ACTIONS[entry.action], ...row } = entry
  await tx.insert(auditLog).values({
    ...row,
    resourceType,
    id: newUuid(),
    ipAddress: context?.ip ?? null,
    userAgent: context?.userAgent ?? null,
    requestId: context?.requestId ?? null,
    details: details ?? {},
  })
}
