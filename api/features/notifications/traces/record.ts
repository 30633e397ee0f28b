import { formatId, parseId } from '../../../../lib/contract/ids.ts'
import { type AuditDetails, insertAudit, type Origin } from '../../../audit/queries.ts'
import type { Database } from '../../../db/db.ts'
import { organizationOf } from '../../../db/organization-of.ts'
import { findTold, markSeen, takeRecord } from './queries.ts'
import { likelySource, type Seen } from './source.ts'

/**
 * Records that the mail of a notification was opened, or its link followed, and by whom probably. Only a person fills in
 * the time that the host sees. Returns the slug of the invitation; undefined unless the notification tells of one.
 */
export async function recordSeen(
  db: Database,
  wireId: string,
  { context, ...seen }: Omit<Seen, 'userAgent' | 'seconds'> & { context: Origin },
): Promise<string | undefined> {
  const id = parseId('notification', wireId)
  const orgId = id && (await organizationOf(db, 'notifications', id))
  const told = id && orgId && (await db.read({ org: orgId }, (tx) => findTold(tx, orgId, id)))
  if (!told) return undefined
  const { invitationId, slug, seconds, isFull } = told
  const source = likelySource({ ...seen, userAgent: context.userAgent, seconds })
  if (isFull && source !== 'person') return slug
  const details: AuditDetails = { operation: seen.what, source, notification_id: formatId('notification', id) }
  await db.inTransaction({ org: orgId }, async (tx) => {
    const isRecorded = await takeRecord(tx, id)
    if (source === 'person') await markSeen(tx, { id, invitationId }, seen.what)
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
  return slug
}
