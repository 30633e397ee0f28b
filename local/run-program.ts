import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { ApiConfig } from '../api/config.ts'
import { openDatabase } from '../api/db/db.ts'
import { FEATURE_WORKERS, FullWorkerConfig } from '../api/features.ts'
import { type RunningApi, startApi } from '../api/server.ts'
import { type RunningWorker, startWorker } from '../api/worker/worker.ts'
import { systemClock } from '../lib/runtime/clock.ts'
import { loadConfig } from '../lib/runtime/config.ts'
import { openEventBus } from '../lib/runtime/event-bus/open.ts'
import type { Lifecycle } from '../lib/runtime/lifecycle.ts'
import { openObjectStore } from '../lib/runtime/object-store/open.ts'
import { OperatorConfig } from '../operator/config.ts'
import { type Operator, startOperator } from '../operator/operator.ts'
import { type LocalCluster, openLocalCluster } from './cluster/local-cluster.ts'
import {
  apiEnvironment,
  type EnvironmentParts,
  operatorEnvironment,
  RETENTION_SECRET,
  retentionEnvironment,
  STORE_SECRET,
  storeEnvironment,
  workerEnvironment,
} from './environment.ts'
import type { LogFile } from './program-log.ts'
import { retentionTemplate } from './retention.ts'

/** What the programs need from this process, which replaces the machinery of a cluster. */
export interface Host {
  folder: string
  parts: EnvironmentParts
  logs: LogFile
  onStop: Lifecycle['onStop']
  /** Called when a program cannot continue: the process should end, as that of a pod would. */
  onFatal(error: Error): void
}

/** One GPU where there is a driver. The Job itself tests whether it can encode. */
const GPUS = existsSync('/dev/nvidia0') ? 1 : 0

/** As the chart's values: a photo of a person who waits goes before a first backup. */
const PRIORITIES = { interactive: 1000, backfill: -1000 }

/** Opens the cluster in this process. Its Jobs read the store settings from the same Secret as real ones. */
export function openCluster(
  { folder, parts, logs, onStop }: Host,
  extraEnv: Record<string, string> = {},
): LocalCluster {
  const cluster = openLocalCluster({
    folder: join(folder, 'cluster'),
    logFolder: join(folder, 'jobs'),
    gpus: GPUS,
    // At least two, so that photos need not wait until a highlight is converted.
    maxPods: Math.max(2, availableParallelism() - 1),
    priorityClasses: PRIORITIES,
    extraEnv,
    hide: [folder],
    secrets: { [STORE_SECRET]: storeEnvironment(parts.objects), [RETENTION_SECRET]: retentionEnvironment(parts) },
    log: logs.of('cluster'),
  })
  onStop('cluster', () => cluster.close())
  return cluster
}

/** Starts the API as `api/main.ts` does, from the same environment by the same schema. */
export async function runApi({ parts, logs, onStop }: Host): Promise<RunningApi & { basePath: string }> {
  const config = loadConfig(ApiConfig, apiEnvironment(parts))
  const log = logs.of('api')
  const store = await openObjectStore(config, log)
  onStop('object store of the API', () => store.close())
  const db = openDatabase({
    url: config.DATABASE_URL,
    role: 'keepsake_api',
    statementTimeoutMs: 5000,
    maxConnections: config.DATABASE_CONNECTIONS,
    log,
  })
  onStop('database of the API', () => db.close())
  const api = await startApi({ config, db, store, log, clock: systemClock })
  onStop('API', () => api.close())
  return { ...api, basePath: config.BASE_PATH }
}

/** Starts the worker as `api/worker/main.ts` does, on the given cluster. */
export async function runWorker({ parts, logs, onStop }: Host, cluster: LocalCluster): Promise<RunningWorker> {
  const config = loadConfig(FullWorkerConfig, workerEnvironment(parts))
  const log = logs.of('worker')
  const store = await openObjectStore(config, log)
  onStop('object store of the worker', () => store.close())
  const bus = await openEventBus(config, log)
  onStop('event bus', () => bus.close())
  const db = openDatabase({
    url: config.DATABASE_URL,
    role: 'keepsake_worker',
    statementTimeoutMs: 60_000,
    maxConnections: config.DATABASE_CONNECTIONS,
    log,
  })
  onStop('database of the worker', () => db.close())
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
  onStop('worker', () => worker.close())
  return worker
}

/** Starts the operator as `operator/main.ts` does, on the given cluster. */
export async function runOperator({ parts, logs, onStop, onFatal }: Host, cluster: LocalCluster): Promise<Operator> {
  const operator = await startOperator({
    config: loadConfig(OperatorConfig, operatorEnvironment(parts, GPUS)),
    cluster,
    log: logs.of('operator'),
    retentionTemplate,
    onFatal,
    // Shorter than on a real cluster, whose API server serves many clients; here a person watches the progress.
    tuning: { progressIntervalMs: 1000 },
  })
  onStop('operator', () => operator.close())
  return operator
}
