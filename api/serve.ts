import { systemClock } from '../lib/runtime/clock.ts'
import { armFailpoint } from '../lib/runtime/failpoint.ts'
import { lifecycle } from '../lib/runtime/lifecycle.ts'
import { openLog } from '../lib/runtime/log.ts'
import { openObjectStore } from '../lib/runtime/object-store/open.ts'
import { tellOfColdTier } from '../lib/runtime/object-store/tell-of-cold-tier.ts'
import type { ApiConfig } from './config.ts'
import { openDatabase } from './db/db.ts'
import { shareOf } from './processes/plan.ts'
import { openSiblings } from './processes/siblings.ts'
import { startApi } from './server.ts'

/** Serves the API in this process, which may be one of several of its replica, until a signal ends it. */
export async function serve(given: ApiConfig, deadlineMs: number): Promise<void> {
  const siblings = openSiblings(given.API_PROCESS)
  const config = siblings ? shareOf(given, given.API_PROCESSES) : given
  armFailpoint(config.KEEPSAKE_FAILPOINT)
  const log = openLog({
    program: 'api',
    level: config.LOG_LEVEL,
    ...(siblings && { process: siblings.number, isShared: true }),
  })
  const life = lifecycle(log, { deadlineMs, exit: true })

  const db = openDatabase({
    url: config.DATABASE_URL,
    role: 'keepsake_api',
    statementTimeoutMs: 5000,
    maxConnections: config.DATABASE_CONNECTIONS,
    log,
  })
  life.onStop('database', () => db.close())
  const store = await openObjectStore(config, log)
  life.onStop('object store', () => store.close())
  void tellOfColdTier(store, log)
  const api = await startApi({ config, db, store, log, clock: systemClock, siblings })
  life.onStop('http', () => api.close())
}
