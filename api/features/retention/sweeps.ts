import type { RetentionTarget } from '../../../crds/retention-rules.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { insertAudit } from '../../audit/queries.ts'
import type { Database } from '../../db/db.ts'
import { isAsConfirmed } from '../../retention/guard-plan.ts'
import { confirm, type HeldBack, lockQuestion } from './sweep-queries.ts'

/**
 * Answers a guard that holds back the worker's sweep: what is due may be purged, if it is about as many as the person has seen. It
 * may be given again until a sweep has begun with it.
 */
export const confirmSweep = (db: Database, target: RetentionTarget, due: number): Promise<HeldBack> =>
  db.inTransaction({}, async (tx) => {
    const asked = await lockQuestion(tx, target)
    if (!asked) throw new Problem('CONFLICT', `Nothing asks for a confirmation of ${target}`)
    if (!isAsConfirmed(due, asked.due)) {
      throw new Problem('CONFLICT', `${asked.due} are due by now; look again before you confirm`)
    }
    if (!isAsConfirmed(asked.due, due)) {
      throw new Problem('CONFLICT', `${asked.due} are due, and you have seen ${due}; look again before you confirm`)
    }
    const confirmedDue = Math.min(due, asked.due)
    await confirm(tx, target, confirmedDue)
    await insertAudit(tx, {
      orgId: null,
      actorId: null,
      action: 'ADMIN_ACTION',
      resourceType: 'retention_sweep',
      resourceId: null,
      result: 'success',
      context: null,
      details: { operation: 'confirm sweep', target, due: confirmedDue },
    })
    return { ...asked, confirmedDue }
  })
