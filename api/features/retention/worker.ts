import type { FeatureWorker, FeatureWorkerDeps } from '../../worker/feature-worker.ts'
import type { GaugeOfRows } from '../../worker/metrics.ts'
import { startMirror } from './mirror.ts'
import { deleteOldRuns } from './queries.ts'
import { countRefused } from './sweep-queries.ts'

const BATCH = 100

export function retentionWorker(deps: FeatureWorkerDeps): FeatureWorker {
  const mirror = startMirror(deps)
  return {
    tasks: [
      { name: 'retention-policies', order: 'first', run: () => mirror.refresh() },
      { name: 'retention-runs', run: (_, signal) => forgetRuns(deps, signal) },
    ],
    gauges: GAUGES,
    stop: () => mirror.stop(),
  }
}

const GAUGES: readonly GaugeOfRows[] = [
  {
    name: 'sweeps_held_back',
    help: 'Targets without a policy that the sweep does not purge before a person has looked; NaN when the database does not answer',
    read: countRefused,
  },
]

/** The report goes after its row: what is left of it is found by no one, and says ids alone. */
async function forgetRuns({ db, store }: FeatureWorkerDeps, signal: AbortSignal): Promise<void> {
  for (;;) {
    const old = await db.inTransaction({}, (tx) => deleteOldRuns(tx, BATCH))
    for (const { report } of old) if (report !== null) await store.delete(report)
    if (old.length < BATCH || signal.aborted) return
  }
}
