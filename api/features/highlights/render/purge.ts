import { HIGHLIGHT_RENDERS } from '../../../../crds/highlight-render.ts'
import { highlightPrefix } from '../../../../lib/contract/object-keys.ts'
import type { RunDeps } from '../../../worker/runs/kind.ts'
import { type PurgeDeps, type PurgeOptions, purgePrefixes } from '../../../worker/runs/purge.ts'
import { stopResource } from '../../../worker/runs/stop.ts'
import { claimPurges, isKept, recordPurge } from './queries.ts'
import { highlightRenderName } from './render-spec.ts'

/**
 * Housekeeping, as keepsake_worker: removes the files of highlights that were deleted or withdrawn, or could not be finished.
 * The last look at a deleted highlight deletes its row. Returns how many objects it has deleted.
 */
export const purgeHighlights = (deps: RunDeps & PurgeDeps, o: PurgeOptions = {}): Promise<number> =>
  purgePrefixes(
    deps,
    {
      noun: 'highlight',
      failpoint: 'render.purged',
      claim: (limits) => deps.db.inTransaction({}, (tx) => claimPurges(tx, limits)),
      about: ({ id }) => ({ highlight: id }),
      isKept: ({ id }) => deps.db.read({}, (tx) => isKept(tx, id)),
      prefixOf: ({ orgId, id }) => highlightPrefix(orgId, id),
      looksOf: ({ looks }) => looks,
      stop: (highlight) => stopResource(deps, HIGHLIGHT_RENDERS, highlightRenderName(highlight)),
      record: (highlight, next) =>
        deps.db.inTransaction({}, (tx) => recordPurge(tx, highlight, next && { ...next, looks: next.looks + 1 })),
    },
    o,
  )
