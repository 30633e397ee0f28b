import type { FeatureWorker, FeatureWorkerDeps } from '../../worker/feature-worker.ts'
import type { GaugeOfRows } from '../../worker/metrics.ts'
import { KEPT_DAYS } from '../downloads/downloads.ts'
import { removeDownloads } from '../downloads/queries.ts'
import { endExportsOfOthers } from './commands.ts'
import type { ExportContents } from './content.ts'
import { type ExporterOptions, startExporter } from './exporter.ts'
import {
  countFailed,
  countRunning,
  deleteEndedEntries,
  deleteEndedPeople,
  deleteOldExports,
  findClosed,
  lockGivenUp,
  markRemoved,
  oldestRunningSeconds,
} from './queries.ts'

const BATCH = 500

type Deps = Pick<FeatureWorkerDeps, 'db' | 'store' | 'log' | 'clock' | 'counterOf'>

export function dataExportWorker(deps: Deps, contents: ExportContents, options?: ExporterOptions): FeatureWorker {
  const { counterOf } = deps
  const parts = counterOf({ name: 'data_export_parts_total', help: 'Archives of exports made' })
  const bytes = counterOf({ name: 'data_export_bytes_total', help: 'Bytes of the archives made' })
  const failures = counterOf({
    name: 'data_export_failures_total',
    help: 'Failed attempts to plan an export or to make a part of one',
    labels: ['step'],
  })
  const missing = counterOf({
    name: 'data_export_missing_total',
    help: 'Originals that an export left out because the object store does not have them',
  })
  const exporter = startExporter(
    {
      ...deps,
      contents,
      onMade(made) {
        parts(1)
        bytes(made)
      },
      onFailed: (step) => failures(1, { step }),
      onMissing: () => missing(1),
    },
    options,
  )
  return {
    channels: { data_exports: () => exporter.wake() },
    tasks: [{ name: 'data-exports', run: (_, signal) => tidy(deps, signal) }],
    gauges: GAUGES,
    stop: () => exporter.stop(),
  }
}

/** Removes failed exports that were not retried, and forgets what is over. */
async function tidy({ db }: Deps, signal: AbortSignal): Promise<void> {
  const giveUp = () =>
    db.inTransaction({}, async (tx) => {
      const given = await lockGivenUp(tx, { days: KEPT_DAYS, limit: BATCH })
      for (const { id } of given) await markRemoved(tx, id)
      await removeDownloads(tx, given)
      return given.length
    })
  while (!signal.aborted && (await giveUp()) === BATCH);
  for (const id of await db.read({}, (tx) => findClosed(tx, BATCH))) {
    if (!signal.aborted) await db.inTransaction({}, (tx) => endExportsOfOthers(tx, id))
  }
  for (const some of [deleteEndedEntries, deleteEndedPeople, deleteOldExports]) {
    while (!signal.aborted && (await db.inTransaction({}, (tx) => some(tx, BATCH))) === BATCH);
  }
}

const GAUGES: readonly GaugeOfRows[] = [
  {
    name: 'data_exports_running',
    help: 'Exports of own data and of events under way; NaN when the database does not answer',
    read: countRunning,
  },
  {
    name: 'data_exports_failed',
    help: 'Failed exports of own data and of events that wait for a retry; NaN when the database does not answer',
    read: countFailed,
  },
  {
    name: 'data_exports_oldest_seconds',
    help: 'How long the oldest export of own data or of an event has been under way; NaN when the database does not answer',
    read: oldestRunningSeconds,
  },
]
