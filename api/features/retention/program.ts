import { constants, setPriority } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import * as z from 'zod'
import { RetentionRun, retentionMessage } from '../../../lib/contract/retention.ts'
import { int, json, loadConfig } from '../../../lib/runtime/config.ts'
import { armFailpoint } from '../../../lib/runtime/failpoint.ts'
import { onSignal } from '../../../lib/runtime/lifecycle.ts'
import { openLog } from '../../../lib/runtime/log.ts'
import { openObjectStore, StoreConfig } from '../../../lib/runtime/object-store/open.ts'
import { KUBERNETES_LOG, writeTerminationLog } from '../../../lib/runtime/termination-log.ts'
import { openDatabase } from '../../db/db.ts'
import { exitOf } from './plan.ts'
import { carryOut } from './run.ts'
import { TARGETS } from './targets.ts'

const Config = StoreConfig.safeExtend({
  DATABASE_URL: z.string().regex(/^postgres(ql)?:\/\//, 'must be a postgres:// address'),
  DATABASE_CONNECTIONS: int(2, 50).default(6),
  RETENTION_RUN: json(RetentionRun),
  TERMINATION_LOG: z.string().default(KUBERNETES_LOG),
  LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
  KEEPSAKE_FAILPOINT: z.string().optional(),
})

const CLOSE_MS = 5000

// On one machine requests and conversions come first. In a pod, it is the pod's CPU request that decides.
setPriority(constants.priority.PRIORITY_LOW)
const config = loadConfig(Config)
armFailpoint(config.KEEPSAKE_FAILPOINT)
const log = openLog({ program: 'retention', level: config.LOG_LEVEL })
const stop = new AbortController()
onSignal((signal) => {
  log.info({ signal }, 'stopping')
  stop.abort(new Error(signal))
})
const run = config.RETENTION_RUN
const target = TARGETS.find(({ name }) => name === run.target)
if (!target) throw new Error(`this version knows no target ${run.target}`)
const db = openDatabase({
  url: config.DATABASE_URL,
  role: 'keepsake_worker',
  statementTimeoutMs: 60_000,
  maxConnections: config.DATABASE_CONNECTIONS,
  log,
})
const store = await openObjectStore(config, log)
try {
  const result = await carryOut({ db, store, log, signal: stop.signal }, target, run)
  await writeTerminationLog(config.TERMINATION_LOG, retentionMessage(result), log)
  log.info({ run: run.run, ...result }, 'ended')
  process.exitCode = exitOf(result, stop.signal)
} catch (error) {
  log.fatal({ err: error, run: run.run }, 'a run was interrupted; another process goes on')
  process.exitCode = 1
} finally {
  // Something that hangs must not keep the pod.
  const closed = Promise.allSettled([store.close(), db.close()])
  await Promise.race([closed, sleep(CLOSE_MS, undefined, { ref: false })])
}
process.exit()
