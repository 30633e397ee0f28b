import { newUuid, type PublicId, type Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { sql } from '../db/orm.ts'
import { prepared } from '../db/prepared.ts'
import { auditLog } from '../db/schema/audit.ts'
import type { Personal, PersonalData } from './personal-data.ts'

/**
 * Actions of interface specification §6.3, each with the kind of its resource; features add theirs. ACCESS_DENIED and
 * DATA_EXPORT are additions to the specification: refusals of the permission service, and copies of a person's own
 * data or of an event.
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
  EVENT_COLD_TIER: 'event',
  EVENT_PURGED: 'event',
  ALBUM_CREATE: 'album',
  ALBUM_ACTION: 'album',
  COMMENT_CREATE: 'comment',
  COMMENT_DELETE: 'comment',
  REACTION_CREATE: 'reaction',
  REACTION_DELETE: 'reaction',
  GDPR_ANONYMIZE: 'user',
  ADMIN_ACTION: 'user',
  DATA_EXPORT: 'export',
  ACCESS_DENIED: 'permission',
} as const
export type AuditAction = keyof typeof AUDIT_ACTIONS

/** Ids, as clients see them, and operations, never personal data, which is readable here for as long as the log is kept. */
export type AuditDetails = Record<string, PublicId | number | boolean | null>

/** Where a request comes from. */
export interface Origin {
  requestId: string
  /** What the client calls its request, if that has the form of an id. Never an id of this server's. */
  clientRequestId: string | null
  /** Client address, according to the configured number of trusted proxies. */
  ip: string
  userAgent: string | null
  /** Encrypts what entries say about people. */
  personalData: Pick<PersonalData, 'encrypt'>
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
  /** Names and the like, about the actor alone: they are kept under the actor's key, next to the address. Needs a context. */
  personal?: Personal['details']
}

/** Inserts an entry in the transaction of its change: both commit or neither. Returns its id. */
export async function insertAudit(tx: Tx, entry: AuditEntry): Promise<Uuid> {
  const { context, details, personal, resourceType = AUDIT_ACTIONS[entry.action], ...row } = entry
  const id = newUuid()
  const boxing = context ? boxOf(id, entry, context) : undefined
  // Mostly there is nothing to wait for, and the query leaves with those that the caller sends next to it.
  const box = boxing instanceof Promise ? await boxing : boxing
  const values = {
    ...row,
    resourceType,
    id,
    personal: box?.personal ?? null,
    keyVersion: box?.keyVersion ?? null,
    addressIndex: box?.addressIndex ?? null,
    requestId: context?.requestId ?? null,
    details: details ?? {},
  }
  await prepared(tx, 'insert_audit', values, () => tx.insert(auditLog).values(PLACEHOLDERS))
  return id
}

function boxOf(entryId: Uuid, { actorId, personal: said }: AuditEntry, context: Origin) {
  const { ip, userAgent, clientRequestId, personalData } = context
  const details =
    said || clientRequestId !== null
      ? { ...said, ...(clientRequestId !== null && { client_request_id: clientRequestId }) }
      : undefined
  const personal = {
    ...(ip && { ipAddress: ip }),
    ...(userAgent !== null && { userAgent }),
    ...(details && { details }),
  }
  if (Object.keys(personal).length === 0) return undefined
  return personalData.encrypt({ entryId, personId: actorId }, personal)
}

const PLACEHOLDERS = {
  id: sql.placeholder('id'),
  orgId: sql.placeholder('orgId'),
  actorId: sql.placeholder('actorId'),
  action: sql.placeholder('action'),
  resourceType: sql.placeholder('resourceType'),
  resourceId: sql.placeholder('resourceId'),
  result: sql.placeholder('result'),
  personal: sql.placeholder('personal'),
  keyVersion: sql.placeholder('keyVersion'),
  addressIndex: sql.placeholder('addressIndex'),
  requestId: sql.placeholder('requestId'),
  details: sql.placeholder('details'),
}
