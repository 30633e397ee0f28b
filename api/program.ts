import { systemClock } from '../lib/runtime/clock.ts'
import { loadConfig } from '../lib/runtime/config.ts'
import { armFailpoint } from '../lib/runtime/failpoint.ts'
import { lifecycle } from '../lib/runtime/lifecycle.ts'
import { openLog } from '../lib/runtime/log.ts'
import { openObjectStore } from '../lib/runtime/object-store/open.ts'
import { tellOfColdTier } from '../lib/runtime/object-store/tell-of-cold-tier.ts'
import { ApiConfig } from './config.ts'
import { openDatabase } from './db/db.ts'
import { startApi } from './server.ts'

const config = loadConfig(ApiConfig)
armFailpoint(config.KEEPSAKE_FAILPOINT)
const log = openLog({ program: 'api', level: config.LOG_LEVEL })
// Drain, then up to one minute for running requests, then close the connections. Kubernetes allows 90 s.
const life = lifecycle(log, { deadlineMs: (config.DRAIN_SECONDS + 70) * 1000, exit: true })

const db = openDatabase({
  url: config.DATABASE_URL,
  role: 'keepsake_api',
  statementTimeoutMs: 5000,
  maxConnections: config.DATABASE_CONNECTIONS,
  log,
})
life.onStop('database', () => db.close())
const store = await openObjectStore(config)
life.onStop('object store', () => store.close())
void tellOfColdTier(store, log)
const api = await startApi({ config, db, store, log, clock: systemClock })
life.onStop('http', () => api.close())
