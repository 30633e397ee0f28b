import type { Uuid } from '../../../lib/contract/ids.ts'
import type { EraseStep } from '../../personal/part.ts'
import type { FeatureWorker, FeatureWorkerDeps, WorkerGate } from '../../worker/feature-worker.ts'
import { keyedQueue } from '../../worker/keyed-queue.ts'
import type { GaugeOfRows } from '../../worker/metrics.ts'
import { openLedgerWatch } from './ledger-watch.ts'
import { countLate, listUnfinished, oldestSeconds } from './queries.ts'
import { replayLedger } from './replay.ts'
import { carryOut } from './saga.ts'
import type { ErasureSettings } from './settings.ts'

export const erasureWorker =
  (steps: () => readonly EraseStep[]) =>
  (deps: FeatureWorkerDeps<ErasureSettings>): FeatureWorker => {
    const { db, log } = deps
    const stopped = new AbortController()
    const { signal } = stopped
    const queue = keyedQueue({
      concurrency: 2,
      look: (id) => carryOut({ ...deps, signal }, steps(), id as Uuid),
      onError: (error, id, attempt) =>
        signal.aborted ||
        log.warn({ err: error, erasure: id, attempt }, 'an erasure is not completed; trying again later'),
    })
    const addUnfinished = async () => (await db.read({}, listUnfinished)).forEach(queue.add)
    return {
      channels: { erasures: (id) => (id ? queue.add(id) : undefined) },
      tasks: [{ name: 'erasures', run: addUnfinished }],
      gauges: GAUGES,
      async stop() {
        stopped.abort()
        await queue.stop()
      },
    }
  }

/** A database that was restored from a backup erases again before anything leaves the platform. */
export function erasureGate({
  db,
  store,
  log,
  config,
}: Omit<FeatureWorkerDeps<ErasureSettings>, 'opened'>): WorkerGate {
  const watch = openLedgerWatch({
    db,
    store,
    log,
    async onMissing() {
      const { entries, erased } = await replayLedger({ db, store, key: config.ERASURE_KEY })
      log.warn({ entries, erased }, 'the database was older than the ledger of erasures: replayed it')
    },
  })
  watch.start()
  return watch
}

const GAUGES: readonly GaugeOfRows[] = [
  {
    name: 'erasures_late',
    help: 'Erasures that are not completed an hour after the request; NaN when the database does not answer',
    read: countLate,
  },
  {
    name: 'erasure_oldest_seconds',
    help: 'Age of the oldest erasure that is not completed; 0 without one, NaN when the database does not answer',
    read: oldestSeconds,
  },
]
