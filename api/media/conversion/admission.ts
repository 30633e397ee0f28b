import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Database } from '../../db/db.ts'
import { type Filler, startFiller } from '../../worker/filler.ts'
import { admissionsOf } from './admission-plan.ts'
import { admitVideos, findOrganizations, listAdmissible, lockAdmissions } from './admission-queries.ts'
import { findConversion } from './queries.ts'
import { type ConversionDeps, startConversion } from './start.ts'

/** Gives free slots to the videos that have waited longest and starts their conversions. */
export type Admission = Filler

export interface AdmissionOptions {
  /** How many conversions of one organization may have a TranscodeJob at a time. */
  maxPerOrganization: number
  backoffMs?: (attempts: number) => number
}

/** Any number of workers may run one each: a slot is given under a lock on the organization's row. */
export function startAdmission(deps: ConversionDeps, { maxPerOrganization, backoffMs }: AdmissionOptions): Admission {
  const { db, log } = deps

  async function start(id: Uuid): Promise<void> {
    const media = await db.read({}, (tx) => findConversion(tx, id))
    if (media?.uploadStatus === 'processing' && media.conversionAdmittedAt) await startConversion(deps, media)
  }

  const decide = (orgIds: readonly Uuid[] | undefined) => admit(db, maxPerOrganization, orgIds)
  return startFiller({ subject: 'admission', decide, start, log, backoffMs })
}

/** Admits videos and returns them in the order in which to start them. */
async function admit(db: Database, max: number, orgIds: readonly Uuid[] | undefined): Promise<Uuid[]> {
  const candidates = orgIds ?? (await db.read({}, (tx) => listAdmissible(tx, max)))
  if (candidates.length === 0) return []
  return db.inTransaction({}, async (tx) => {
    await lockAdmissions(tx, candidates)
    // A separate statement: the locking statement sees the slots as they were before it waited.
    const admitted = admissionsOf(await findOrganizations(tx, candidates, max), max)
    if (admitted.length > 0) await admitVideos(tx, admitted)
    return admitted
  })
}
