import { stagingPrefix } from '../../../../lib/contract/object-keys.ts'
import type { Database } from '../../../db/db.ts'
import { type PurgeDeps, type PurgeOptions, purgePrefixes } from '../../../worker/runs/purge.ts'
import { claimStaging, recordStaging } from './staging-queries.ts'

/**
 * Housekeeping: looks again where the staged chunks of ended sessions were, and deletes a chunk that was under way when its
 * session ended. Returns how many objects it has deleted.
 */
export const sweepStaging = (deps: PurgeDeps & { db: Database }, o: PurgeOptions = {}): Promise<number> =>
  purgePrefixes(
    deps,
    {
      noun: 'late chunk',
      failpoint: 'staging.looked',
      claim: (limits) => deps.db.inTransaction({}, (tx) => claimStaging(tx, limits)),
      about: ({ uploadId }) => ({ upload: uploadId }),
      prefixOf: ({ orgId, uploadId }) => stagingPrefix(orgId, uploadId),
      looksOf: ({ looks }) => looks + 1,
      onFound: ({ uploadId }, found) =>
        deps.log.warn({ upload: uploadId, found }, 'deleted chunks that came after the end of their session'),
      record: ({ uploadId }, next) => deps.db.inTransaction({}, (tx) => recordStaging(tx, uploadId, next)),
    },
    { batch: 200, ...o },
  )
