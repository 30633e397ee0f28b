import { setTimeout as sleep } from 'node:timers/promises'
import { formatId, parseId } from '../../../../lib/contract/ids.ts'
import { type AuditDetails, insertAudit, type Origin } from '../../../audit/queries.ts'
import type { Database } from '../../../db/db.ts'
import { organizationOf } from '../../../db/organization-of.ts'
import type { ApiDeps } from '../../../deps.ts'
import { findTold, markSeen, takeRecord } from './queries.ts'
import { likelySource, type Seen } from './source.ts'

/** What a notification tells of; undefined unless that is an invitation. */
export async function findSeen(db: Database, wireId: string) {
  const id = parseId('notification', wireId)
  const orgId = id && (await organizationOf(db, 'notifications', id))
  const told = id && orgId && (await db.read({ org: orgId }, (tx) => findTold(tx, orgId, id)))
  return told && { ...told, id, orgId }
}

type Told = NonNullable<Awaited<ReturnType<typeof findSeen>>>
type Sight = Omit<Seen, 'userAgent' | 'seconds'> & { context: Origin }

/** Before attempt 2, 3, …: locks end, and a database is started again. */
const AGAIN_SECONDS = [1, 5, 20, 60]
/** What waits for another attempt: more is what a database that is away would leave behind. */
const MAX_WAITING = 1000

/**
 * Returns a function that records an open or a click, and that no answer waits for. When the database refuses, it tries
 * again for a minute and a half. What waits is in memory alone: opens and clicks are advice, and a process that ends may
 * lose those.
 */
export function recorderOf({ db, log }: Pick<ApiDeps, 'db' | 'log'>, againSeconds: readonly number[] = AGAIN_SECONDS) {
  let waiting = 0

  /** Never rejects. `finding`: what the caller has begun to look for anyway. */
  return async function record(wireId: string, sight: Sight, finding = findSeen(db, wireId)): Promise<void> {
    const began = performance.now()
    let looking = finding
    for (let attempt = 0; ; attempt++) {
      try {
        const told = await looking
        if (told) await recordSeen(db, told, sight, (performance.now() - began) / 1000)
        return
      } catch (error) {
        const seconds = againSeconds[attempt]
        if (seconds === undefined || waiting >= MAX_WAITING) {
          log.error({ err: error, what: sight.what, attempts: attempt + 1 }, 'an open or a click was not recorded')
          return
        }
        waiting += 1
        // Does not keep a process that is stopped.
        await sleep(seconds * 1000, undefined, { ref: false })
        waiting -= 1
        looking = findSeen(db, wireId)
      }
    }
  }
}

/**
 * Records that the mail of a notification was opened, or its link followed, and by whom probably. Only a person fills in
 * the time that the host sees.
 */
async function recordSeen(
  db: Database,
  { id, orgId, invitationId, seconds, isFull, isSeen }: Told,
  { context, ...seen }: Sight,
  agoSeconds: number,
): Promise<void> {
  const secondsThen = seconds === null ? null : Math.max(0, seconds - agoSeconds)
  const source = likelySource({ ...seen, userAgent: context.userAgent, seconds: secondsThen })
  if (isFull && (source !== 'person' || isSeen[seen.what])) return
  const details: AuditDetails = { operation: seen.what, source, notification_id: formatId('notification', id) }
  await db.inTransaction({ org: orgId }, async (tx) => {
    // First: it locks the invitation before the notification.
    if (source === 'person' && !isSeen[seen.what]) await markSeen(tx, { id, invitationId, agoSeconds }, seen.what)
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
