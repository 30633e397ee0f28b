import { setTimeout as sleep } from 'node:timers/promises'
import { formatId, newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { insertAudit } from '../../audit/queries.ts'
import type { Database, Tx } from '../../db/db.ts'
import { isLockTimeout } from '../../db/errors.ts'
import type { LegalHoldRow } from '../../db/schema/retention.ts'
import { lockHoldsAlone } from '../../retention/holds-queries.ts'
import { findHold, findHoldOn, insertHold, releaseHoldRow, subjectExists, wakeHeldErasures } from './hold-queries.ts'

/** The kinds of holds, as kinds of ids. */
export const ID_KIND_OF = { person: 'user', event: 'event', organization: 'organization' } as const

type NewHold = Pick<LegalHoldRow, 'kind' | 'subject' | 'reason' | 'placedBy'>

/** Longer than a statement of the worker may take. */
const PATIENCE_MS = 120_000
const AGAIN_MS = 200

/**
 * Puts a hold on a person, an event or an organization. From the commit on nothing of it is purged; a purge that was in its last
 * transaction has committed before, and the audit log has its entry before that of the hold. A second hold on the same is the
 * first one. A step of an erasure may hold the lock for as long as a statement may take: this waits for it in turns, because
 * requests that ask for holds wait behind each of them.
 */
export async function addHold(db: Database, hold: NewHold): Promise<LegalHoldRow & { added: boolean }> {
  const end = performance.now() + PATIENCE_MS
  while (true) {
    try {
      return await insert(db, hold)
    } catch (error) {
      if (!isLockTimeout(error) || performance.now() > end) throw error
      await sleep(AGAIN_MS)
    }
  }
}

const insert = (db: Database, o: NewHold) =>
  db.inTransaction({}, async (tx) => {
    await lockHoldsAlone(tx)
    if (!(await subjectExists(tx, o.kind, o.subject))) throw new Problem('NOT_FOUND', `There is no such ${o.kind}`)
    const present = await findHoldOn(tx, o.kind, o.subject)
    if (present) return { ...present, added: false }
    const row = await insertHold(tx, { id: newUuid(), ...o })
    await audit(tx, row, 'add hold')
    return { ...row, added: true }
  })

/** Ends a hold. Where nothing else keeps it, what it kept is due again within a day, and erasures that waited go on at once. */
export const releaseHold = (db: Database, id: Uuid): Promise<LegalHoldRow & { released: boolean }> =>
  db.inTransaction({}, async (tx) => {
    const released = await releaseHoldRow(tx, id)
    if (released) {
      await audit(tx, released, 'release hold')
      await wakeHeldErasures(tx)
      return { ...released, released: true }
    }
    const row = await findHold(tx, id)
    if (!row) throw new Problem('NOT_FOUND', 'There is no such hold')
    return { ...row, released: false }
  })

const audit = (tx: Tx, row: LegalHoldRow, operation: 'add hold' | 'release hold') =>
  insertAudit(tx, {
    orgId: row.kind === 'organization' ? row.subject : null,
    actorId: null,
    action: 'ADMIN_ACTION',
    resourceType: 'hold',
    resourceId: row.id,
    result: 'success',
    context: null,
    details: { operation, subject: formatId(ID_KIND_OF[row.kind], row.subject) },
  })
