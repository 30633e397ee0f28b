import { sql } from 'drizzle-orm'
import { newUuid, type PublicId, type Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { prepared } from '../db/prepared.ts'
import { auditLog } from '../db/schema/audit.ts'

/**
 * Actions of interface specification §6.3, each with the kind of its resource; features add theirs. ACCESS_DENIED is an
 * addition to the specification: refusals of the permission service.
 */
export const AUDIT_ACTIONS = {
  LOGIN: 'session',
  LOGOUT: 'session',
  TOKEN_REFRESH: 'session',
  SESSION_REVOKE: 'session',
  MEDIA_UPLOAD: 'media',
  MEDIA_DELETE: 'media',
  MEMBER_INVITE: 'user',
  EVENT_CREATE: 'event',
  EVENT_INVITE: 'invitation',
  EVENT_ACTION: 'event',
  EVENT_ACTIVATE: 'event',
  EVENT_ARCHIVE: 'event',
  ALBUM_CREATE: 'album',
  ALBUM_ACTION: 'album',
  COMMENT_CREATE: 'comment',
  COMMENT_DELETE: 'comment',
  REACTION_CREATE: 'reaction',
  REACTION_DELETE: 'reaction',
  GDPR_ANONYMIZE: 'user',
  ADMIN_ACTION: 'user',
  ACCESS_DENIED: 'permission',
} as const
export type AuditAction = keyof typeof AUDIT_ACTIONS

/** Ids, as clients see them, and operations, never personal data: the log is kept after the erasure of a user. */
export type AuditDetails = Record<string, PublicId | number | boolean | null>

/** Where a request comes from. */
export interface Origin {
  requestId: string
  /** What the client calls its request, if that has the form of an id. Never an id of this server's. */
  clientRequestId: string | null
  /** Client address, according to the configured number of trusted proxies. */
  ip: string
  userAgent: string | null
}

export interface AuditEntry {
  orgId: Uuid | null
  /** Null without a signed-in user: the command line, scheduled work. */
  actorId: Uuid | null
  action: AuditAction
  /** Overrides the kind of the action. */
  resourceType?: string
  resourceId: Uuid | null
  result: 'success' | 'failure' | 'denied'
  /** The request; null without one. */
  context: Origin | null
  details?: AuditDetails
}

/** Inserts an entry in the transaction of its change: both commit or neither. */
export async function insertAudit(tx: Tx, entry: AuditEntry): Promise<void> {
  const { context, details, resourceType = AUDIT_ACTIONS[entry.action], ...row } = entry
  const values = {
    ...row,
    resourceType,
    id: newUuid(),
    ipAddress: context?.ip ?? null,
    userAgent: context?.userAgent ?? null,
    requestId: context?.requestId ?? null,
    clientRequestId: context?.clientRequestId ?? null,
    details: details ?? {},
  }
  await prepared(tx, 'insert_audit', values, () => tx.insert(auditLog).values(PLACEHOLDERS))
}

const PLACEHOLDERS = {
  id: sql.placeholder('id'),
  orgId: sql.placeholder('orgId'),
  actorId: sql.placeholder('actorId'),
  action: sql.placeholder('action'),
  resourceType: sql.placeholder('resourceType'),
  resourceId: sql.placeholder('resourceId'),
  result: sql.placeholder('result'),
  ipAddress: sql.placeholder('ipAddress'),
  userAgent: sql.placeholder('userAgent'),
  requestId: sql.placeholder('requestId'),
  clientRequestId: sql.placeholder('clientRequestId'),
  details: sql.placeholder('details'),
}
