import { highlightPrefix } from '../../../../lib/contract/object-keys.ts'
import { failpoint } from '../../../../lib/runtime/failpoint.ts'
import type { ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'
import type { PurgeOptions, PurgeReports } from '../../media/deletion/purge.ts'
import { nextLook } from '../../media/deletion/purge-plan.ts'
import { claimPurges, recordPurge } from './queries.ts'
import { type RenderDeps, stopRender } from './start.ts'

interface FilmPurgeDeps extends RenderDeps, Pick<PurgeReports, 'onObjectsDeleted' | 'onPurgeFailed'> {
  store: ObjectStore
}

const LEASE_SECONDS = 600

/**
 * Housekeeping, as keepsake_worker: removes the files of films that were deleted or withdrawn, or could not be finished,
 * and looks again a few times, as a pod may write for a while after its resource was deleted. The last look at a deleted
 * highlight deletes its row. Every step may run twice. Returns how many objects it has deleted.
 */
export async function purgeFilms(deps: FilmPurgeDeps, o: PurgeOptions = {}): Promise<number> {
  const { batch = 100, leaseSeconds = LEASE_SECONDS, signal } = o
  let deleted = 0
  for (;;) {
    const films = await deps.db.inTransaction({}, (tx) => claimPurges(tx, { limit: batch, leaseSeconds }))
    for (const film of films) {
      if (signal?.aborted) return deleted
      try {
        deleted += await purgeFilm(deps, film)
      } catch (error) {
        deps.onPurgeFailed?.()
        deps.log.warn({ err: error, highlight: film.id }, 'could not purge a film; trying again later')
      }
    }
    if (films.length < batch) return deleted
  }
}

type Film = Awaited<ReturnType<typeof claimPurges>>[number]

async function purgeFilm(deps: FilmPurgeDeps, film: Film): Promise<number> {
  const wasRunning = await stopRender(deps, film)
  const found = await deps.store.deletePrefix(highlightPrefix(film.orgId, film.id))
  deps.onObjectsDeleted?.(found)
  failpoint('highlights.purged')
  // What wrote once may write again: the looks start over.
  const looks = found > 0 || wasRunning ? 0 : film.looks
  const next = nextLook(looks)
  await deps.db.inTransaction({}, (tx) => recordPurge(tx, film, next && { ...next, looks: looks + 1 }))
  return found
}
