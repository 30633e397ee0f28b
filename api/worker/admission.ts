import type { Uuid } from '../../lib/contract/ids.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Database } from '../db/db.ts'
import { findConversion } from '../media/conversion.ts'
import { admissionsOf } from './admission-plan.ts'
import { admitVideos, findOrganizations, listAdmissible, lockAdmissions } from './admission-queries.ts'
import { keyedQueue } from './keyed-queue.ts'
import { type ConversionDeps, startConversion } from './start-conversion.ts'

export interface Admission {
  /**
   * Gives free slots to the videos that have waited longest, in these organizations or in all, and starts their
   * conversions. Returns the videos that it started. A video that cannot be started now keeps its slot and is retried.
   */
  fill(orgIds?: readonly Uuid[]): Promise<ReadonlySet<Uuid>>
  /** Schedules a `fill` of one organization or of all. */
  wake(orgId?: Uuid): void
  /** Resolves when the work in progress is done. */
  stop(): Promise<void>
}

export interface AdmissionOptions {
  /** How many conversions of one organization may have a TranscodeJob at a time. */
  maxPerOrganization: number
  backoffMs?: (attempts: number) => number
}

const ALL = 'all organizations'

/** Any number of workers may run one each: a slot is given under a lock on the organization's row. */
export function startAdmission(deps: ConversionDeps, options: AdmissionOptions): Admission {
  const { db, log } = deps
  const { maxPerOrganization, backoffMs } = options

  async function start(id: Uuid): Promise<void> {
    const media = await db.read({}, (tx) => findConversion(tx, id))
    if (media?.uploadStatus === 'processing' && media.conversionAdmittedAt) await startConversion(deps, media)
  }

  async function fill(orgIds?: readonly Uuid[]): Promise<ReadonlySet<Uuid>> {
    const admitted = await admit(db, maxPerOrganization, orgIds)
    if (admitted.length > 0) failpoint('admission.committed')
    const started = new Set<Uuid>()
    for (const id of admitted) {
      try {
        await start(id)
        started.add(id)
      } catch (error) {
        log.warn({ err: error, media: id }, 'could not start an admitted conversion')
        // If this process dies first, the sweep finds the video admitted and without a TranscodeJob.
        starts.add(id)
      }
    }
    return started
  }

  const starts = keyedQueue({
    concurrency: 4,
    look: async (id) => void (await start(id as Uuid)),
    onError: (error, id, attempt) =>
      log.warn({ err: error, media: id, attempt }, 'could not start an admitted conversion; trying again later'),
    ...(backoffMs && { backoffMs }),
  })
  const fills = keyedQueue({
    concurrency: 2,
    look: async (key) => void (await fill(key === ALL ? undefined : [key as Uuid])),
    onError: (error, key, attempt) =>
      log.warn(
        { err: error, organization: key, attempt },
        'could not fill the slots of an organization; trying again later',
      ),
    ...(backoffMs && { backoffMs }),
  })
  return {
    fill,
    wake: (orgId) => fills.add(orgId ?? ALL),
    async stop() {
      await fills.stop()
      await starts.stop()
    },
  }
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
