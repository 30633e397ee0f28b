import { systemClock } from '../../lib/runtime/clock.ts'
import { loadConfig } from '../../lib/runtime/config.ts'
import { openEventBus } from '../../lib/runtime/event-bus/open.ts'
import { armFailpoint } from '../../lib/runtime/failpoint.ts'
import { openKubeCluster } from '../../lib/runtime/kube/kube-cluster.ts'
import { lifecycle } from '../../lib/runtime/lifecycle.ts'
import { openLog } from '../../lib/runtime/log.ts'
import { openObjectStore } from '../../lib/runtime/object-store/open.ts'
import { tellOfColdTier } from '../../lib/runtime/object-store/tell-of-cold-tier.ts'
import { openDatabase } from '../db/db.ts'
import { FEATURE_WORKERS, FullWorkerConfig } from '../features.ts'
import { startWorker } from './worker.ts'

const config = loadConfig(FullWorkerConfig)
armFailpoint(config.KEEPSAKE_FAILPOINT)
const log = openLog({ program: 'worker', level: config.LOG_LEVEL })
const life = lifecycle(log, { deadlineMs: 60_000, exit: true })

const db = openDatabase({
  url: config.DATABASE_URL,
  role: 'keepsake_worker',
  statementTimeoutMs: 60_000,
  maxConnections: config.DATABASE_CONNECTIONS,
  log,
})
life.onStop('database', () => db.close())
const store = await openObjectStore(config, log)
life.onStop('object store', () => store.close())
void tellOfColdTier(store, log)
const bus = await openEventBus(config, log)
life.onStop('event bus', () => bus.close())
const cluster = openKubeCluster({ log })
life.onStop('cluster', () => cluster.close())
const worker = await startWorker({
  config,
  features: FEATURE_WORKERS,
  db,
  store,
  bus,
  cluster,
  log,
  clock: systemClock,
})
life.onStop('worker', () => worker.close())
