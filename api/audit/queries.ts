import { newUuid, type Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { auditLog } from '../db/schema/audit.ts'
import type { Context } from '../http/route.ts'

/** Interface specification §6.3; grows with the features. */
export const AUDIT_ACTIONS = [
  'LOGIN',
  'LOGOUT',
  'TOKEN_REFRESH',
  'SESSION_REVOKE',
  'MEDIA_UPLOAD',
  'MEDIA_DELETE',
  'MEMBER_INVITE',
  'ADMIN_ACTION',
] as const
export type AuditAction = (typeof AUDIT_ACTIONS)[number]

export interface AuditEntry {
  orgId: Uuid | null
  /** Null when nobody is signed in: the command line, scheduled work. */
  actorId: Uuid | null
  action: AuditAction
  resourceType: string
  resourceId: Uuid | null
  result: 'success' | 'failure' | 'denied'
  /** The request it happened in; null outside of one. */
  context: Pick<Context, 'requestId' | 'ip' | 'userAgent'> | null
  /** Ids and operations, never names or addresses of people: the log outlives their erasure. */
  details?: Record<string, string | number | boolean | null>
}

/** Records an entry in the transaction of what it records: either both happened or neither. */
export async function insertAudit(tx: Tx, entry: AuditEntry): Promise<void> {
  const { context, details, ...row } = entry
  await tx.insert(auditLog).values({
    ...row,
    id: newUuid(),
    ipAddress: context?.ip ?? null,
    userAgent: context?.userAgent ?? null,
    requestId: context?.requestId ?? null,
    details: details ?? {},
  })
}
