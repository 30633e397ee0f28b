import { formatId, parseId } from '../../../../lib/contract/ids.ts'
import { type AuditDetails, insertAudit, type Origin } from '../../../audit/queries.ts'
import type { Database } from '../../../db/db.ts'
import { organizationOf } from '../../../db/organization-of.ts'
import { findTold, markSeen, takeRecord } from './queries.ts'
import { likelySource, type Seen } from './source.ts'

/** What a notification tells of; undefined unless that is an invitation. */
export async function findSeen(db: Database, wireId: string) {
  const id = parseId('notification', wireId)
  const orgId = id && (await organizationOf(db, 'notifications', id))
  const told = id && orgId && (await db.read({ org: orgId }, (tx) => findTold(tx, orgId, id)))
  return told && { ...told, id, orgId }
}

/**
 * Records that the mail of a notification was opened, or its link followed, and by whom probably. Only a person fills in
 * the time that the host sees.
 */
export async function recordSeen(
  db: Database,
  { id, orgId, invitationId, seconds, isFull, isSeen }: NonNullable<Awaited<ReturnType<typeof findSeen>>>,
  { context, ...seen }: Omit<Seen, 'userAgent' | 'seconds'> & { context: Origin },
): Promise<void> {
  const source = likelySource({ ...seen, userAgent: context.userAgent, seconds })
  if (isFull && (source !== 'person' || isSeen[seen.what])) return
  const details: AuditDetails = { operation: seen.what, source, notification_id: formatId('notification', id) }
  await db.inTransaction({ org: orgId }, async (tx) => {
    // First: it locks the invitation before the notification.
    if (source === 'person' && !isSeen[seen.what]) await markSeen(tx, { id, invitationId }, seen.what)
    const isRecorded = await takeRecord(tx, id)
    if (!isRecorded) return
    await insertAudit(tx, {
      ...{
        orgId,
        actorId: null,
        action: 'EVENT_INVITE',
        resourceId: invitationId,
        result: 'success',
        context,
        details,
      },
    })
  })
}
