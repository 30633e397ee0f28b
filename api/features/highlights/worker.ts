import * as z from 'zod'
import type { Uuid } from '../../../lib/contract/ids.ts'
import { int } from '../../../lib/runtime/config.ts'
import type { FeatureWorker, FeatureWorkerDeps } from '../../worker/feature-worker.ts'
import type { GaugeOfRows } from '../../worker/metrics.ts'
import { countWaiting } from '../../worker/runs/admission-queries.ts'
import { workedKind } from '../../worker/runs/worked-kind.ts'
import { boundPieces, measurePieces, purgeUnused } from './pieces/pieces.ts'
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
  PIECES_MIB_PER_ORGANIZATION: int(0, 1_000_000_000)
    .default(20_480)
    .describe('How much of the pieces of highlights is kept for later ones, per organization, in MiB'),
  PIECES_MIB_IN_ALL: int(0, 1_000_000_000).default(1_048_576).describe('The same of all organizations together'),
})

const MIB = 1024 ** 2

export function highlightWorker(given: FeatureWorkerDeps<z.output<typeof HighlightSettings>>): FeatureWorker {
  const admission = startRenderAdmission(given, { maxPerOrganization: given.config.MAX_RENDERS_PER_ORGANIZATION })
  const deps = { ...given, admission }
  const { PIECES_MIB_PER_ORGANIZATION: organization, PIECES_MIB_IN_ALL: all } = given.config
  const bounds = { organization: organization * MIB, all: all * MIB }
  return {
    reactions: highlightReactions(deps),
    kinds: [workedKind(given, RENDERS, { name: 'renders', fillers: [admission] })],
    tasks: [
      { name: 'highlights', run: (_, signal) => purgeHighlights(deps, { signal }) },
      { name: 'pieces', run: (_, signal) => measurePieces(deps, signal) },
      { name: 'pieces-bound', run: (_, signal) => boundPieces(deps, bounds, signal) },
      { name: 'unused-pieces', order: 'purges', run: (_, signal) => purgeUnused(deps, signal) },
    ],
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
