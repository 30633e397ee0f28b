import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Log } from '../../../lib/runtime/log.ts'
import type { Database, Tx } from '../../db/db.ts'
import { type Filler, type FillerOptions, startFiller } from '../filler.ts'
import { admissionsOf } from './admission-plan.ts'
import { findOrganizations, type Line, listAdmissible, lockAdmissions, lockWaiting } from './admission-queries.ts'

/** Gives free slots to the rows that have waited longest and starts them. */
export type Admission = Filler

export interface AdmissionOptions {
  /** How many rows of one organization may have a resource at a time. */
  maxPerOrganization: number
  backoffMs?: (attempts: number) => number
}

/** What gets the slots of a line. */
export interface Admitted extends Pick<FillerOptions, 'subject' | 'start'> {
  line: Line
  /** Gives slots to waiting rows of the line, which the transaction has locked. */
  admit(tx: Tx, ids: readonly Uuid[]): Promise<void>
}

/** Any number of workers may run one each: a slot is given under a lock on the organization's row. */
export function startAdmission(
  { db, log }: { db: Database; log: Log },
  admitted: Admitted,
  { maxPerOrganization, backoffMs }: AdmissionOptions,
): Admission {
  const decide = (orgIds: readonly Uuid[] | undefined) => decideAdmissions(db, admitted, maxPerOrganization, orgIds)
  return startFiller({ ...admitted, decide, log, backoffMs })
}

/** Admits rows and returns them in the order in which to start them. */
async function decideAdmissions(
  db: Database,
  { line, admit }: Admitted,
  max: number,
  orgIds: readonly Uuid[] | undefined,
): Promise<Uuid[]> {
  const candidates = orgIds ?? (await db.read({}, (tx) => listAdmissible(tx, line, max)))
  if (candidates.length === 0) return []
  return db.inTransaction({}, async (tx) => {
    await lockAdmissions(tx, candidates)
    // A separate statement: the locking statement sees the slots as they were before it waited.
    const decided = admissionsOf(await findOrganizations(tx, line, candidates, max), max)
    if (decided.length === 0) return []
    // A row may have ended since it was read. What ended it also wakes this admission, so its slot is given again.
    const waiting = await lockWaiting(tx, line, decided)
    if (waiting.length > 0) await admit(tx, waiting)
    return decided.filter((id) => waiting.includes(id))
  })
}
