import type { OwnData, OwnFiles, OwnSection } from '../../requests/own-data.ts'
import type { FeatureWorker, FeatureWorkerDeps } from '../../worker/feature-worker.ts'
import type { GaugeOfRows } from '../../worker/metrics.ts'
import { KEPT_DAYS } from '../downloads/downloads.ts'
import { removeDownloads } from '../downloads/queries.ts'
import { type ExporterOptions, startExporter } from './exporter.ts'
import {
  countFailed,
  countRunning,
  deleteEndedEntries,
  deleteOldExports,
  lockGivenUp,
  markRemoved,
  oldestRunningSeconds,
} from './queries.ts'

const BATCH = 500

export const sectionsOf = (all: readonly OwnData[]): OwnSection[] =>
  all.flatMap((one) => ('sections' in one ? one.sections : []))

export function filesOf(all: readonly OwnData[]): OwnFiles {
  const [files, ...others] = all.flatMap((one) => ('files' in one && one.files ? [one.files] : []))
  // The plan goes on behind the last media item.
  if (!files || others.length > 0) throw new Error('exactly one feature has files')
  return files
}

type Deps = Pick<FeatureWorkerDeps, 'db' | 'store' | 'log' | 'clock' | 'counterOf'>

export function dataExportWorker(deps: Deps, all: readonly OwnData[], options?: ExporterOptions): FeatureWorker {
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
      sections: sectionsOf(all),
      files: filesOf(all),
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
  for (const some of [deleteEndedEntries, deleteOldExports]) {
    while (!signal.aborted && (await db.inTransaction({}, (tx) => some(tx, BATCH))) === BATCH);
  }
}

const GAUGES: readonly GaugeOfRows[] = [
  {
    name: 'data_exports_running',
    help: 'Exports of own data under way; NaN when the database does not answer',
    read: countRunning,
  },
  {
    name: 'data_exports_failed',
    help: 'Failed exports of own data that wait for a retry; NaN when the database does not answer',
    read: countFailed,
  },
  {
    name: 'data_exports_oldest_seconds',
    help: 'How long the oldest export of own data has been under way; NaN when the database does not answer',
    read: oldestRunningSeconds,
  },
]
