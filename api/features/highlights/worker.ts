import * as z from 'zod'
import type { Uuid } from '../../../lib/contract/ids.ts'
import { int } from '../../../lib/runtime/config.ts'
import { countWaiting } from '../../worker/admission-queries.ts'
import type { FeatureWorker, FeatureWorkerDeps } from '../../worker/feature-worker.ts'
import type { GaugeOfRows } from '../../worker/metrics.ts'
import { workedKind } from '../../worker/runs/worked-kind.ts'
import { startFilmAdmission } from './render/admission.ts'
import { FILMS } from './render/admission-queries.ts'
import { RENDERS } from './render/kind.ts'
import { purgeFilms } from './render/purge.ts'
import { oldestFilmPurgeSeconds } from './render/queries.ts'
import { highlightReactions } from './render/reactions.ts'

export const HighlightSettings = z.object({
  MAX_FILMS_PER_ORGANIZATION: int(1, 10_000)
    .default(4)
    .describe('How many films of one organization may have a HighlightRender at a time; the others wait in Postgres'),
})

export function highlightWorker(given: FeatureWorkerDeps<z.output<typeof HighlightSettings>>): FeatureWorker {
  const films = startFilmAdmission(given, { maxPerOrganization: given.config.MAX_FILMS_PER_ORGANIZATION })
  const deps = { ...given, films }
  return {
    reactions: highlightReactions(deps),
    kinds: [workedKind(given, RENDERS, { name: 'renders', fillers: [films] })],
    tasks: [{ name: 'films', run: (_, signal) => purgeFilms(deps, { signal }) }],
    // A slot for films became free. The payload is the organization.
    channels: { films: (orgId) => films.wake(orgId as Uuid | undefined) },
    gauges: HIGHLIGHT_GAUGES,
    stop: films.stop,
  }
}

export const HIGHLIGHT_GAUGES: readonly GaugeOfRows[] = [
  {
    name: 'films_waiting',
    help: 'Films that wait for a slot of their organization; NaN when the database does not answer',
    read: (tx) => countWaiting(tx, FILMS),
  },
  {
    name: 'film_purge_oldest_due_seconds',
    help: 'How long the purge of the oldest deleted or withdrawn film has been due; 0 when none is, NaN when the database does not answer',
    read: oldestFilmPurgeSeconds,
  },
]
