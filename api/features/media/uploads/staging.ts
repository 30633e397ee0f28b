import { stagingPrefix } from '../../../../lib/contract/object-keys.ts'
import type { Database } from '../../../db/db.ts'
import { claimLooks, recordLook } from '../../../worker/runs/looks-queries.ts'
import { type PurgeDeps, type PurgeOptions, purgePrefixes } from '../../../worker/runs/purge.ts'
import { STAGING_LOOKS } from './staging-queries.ts'

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
      claim: (limits) => deps.db.inTransaction({}, (tx) => claimLooks(tx, STAGING_LOOKS, limits)),
      about: ({ uploadId }) => ({ upload: uploadId }),
      prefixOf: ({ orgId, uploadId }) => stagingPrefix(orgId, uploadId),
      looksOf: ({ looks }) => looks + 1,
      onFound: ({ uploadId }, found) =>
        deps.log.warn({ upload: uploadId, found }, 'deleted chunks that came after the end of their session'),
      record: ({ uploadId }, next) => deps.db.inTransaction({}, (tx) => recordLook(tx, STAGING_LOOKS, uploadId, next)),
    },
    { batch: 200, ...o },
  )
