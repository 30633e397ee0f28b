import * as z from 'zod'
import type { Uuid } from '../../../lib/contract/ids.ts'
import { int } from '../../../lib/runtime/config.ts'
import type { FeatureWorker, FeatureWorkerDeps } from '../../worker/feature-worker.ts'
import type { GaugeOfRows } from '../../worker/metrics.ts'
import { countWaiting } from '../../worker/runs/admission-queries.ts'
import { workedKind } from '../../worker/runs/worked-kind.ts'
import { startRenderAdmission } from './render/admission.ts'
import { RENDER_LINE } from './render/admission-queries.ts'
import { RENDERS } from './render/kind.ts'
import { purgeHighlights } from './render/purge.ts'
import { oldestHighlightPurgeSeconds } from './render/queries.ts'
import { highlightReactions } from './render/reactions.ts'

export const HighlightSettings = z.object({
  MAX_RENDERS_PER_ORGANIZATION: int(1, 10_000)
    .default(4)
    .describe(
      'How many highlights of one organization may have a HighlightRender at a time; the others wait in Postgres',
    ),
})

export function highlightWorker(given: FeatureWorkerDeps<z.output<typeof HighlightSettings>>): FeatureWorker {
  const admission = startRenderAdmission(given, { maxPerOrganization: given.config.MAX_RENDERS_PER_ORGANIZATION })
  const deps = { ...given, admission }
  return {
    reactions: highlightReactions(deps),
    kinds: [workedKind(given, RENDERS, { name: 'renders', fillers: [admission] })],
    tasks: [{ name: 'highlights', run: (_, signal) => purgeHighlights(deps, { signal }) }],
    // A slot for renders became free. The payload is the organization.
    channels: { renders: (orgId) => admission.wake(orgId as Uuid | undefined) },
    gauges: HIGHLIGHT_GAUGES,
    stop: admission.stop,
  }
}

export const HIGHLIGHT_GAUGES: readonly GaugeOfRows[] = [
  {
    name: 'renders_waiting',
    help: 'Highlights that wait for a slot of their organization; NaN when the database does not answer',
    read: (tx) => countWaiting(tx, RENDER_LINE),
  },
  {
    name: 'highlight_purge_oldest_due_seconds',
    help: 'How long the purge of the oldest deleted or withdrawn highlight has been due; 0 when none is, NaN when the database does not answer',
    read: oldestHighlightPurgeSeconds,
  },
]
