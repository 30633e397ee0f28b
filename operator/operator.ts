import { randomUUID } from 'node:crypto'
import { TRANSCODE_JOBS } from '../crds/transcode-job.ts'
import { type Cluster, JOBS, NODES, PODS } from '../lib/runtime/kube/cluster.ts'
import type { Log } from '../lib/runtime/log.ts'
import type { OperatorConfig } from './config.ts'
import { openCaches } from './jobs/caches.ts'
import { followGpuNodes, type GpuNodes } from './jobs/gpu-nodes.ts'
import { type OperatorMetrics, operatorMetrics } from './operator-metrics.ts'
import type { ChildConfig } from './program/child.ts'
import { type TranscodeProgressWriter, transcodeProgress } from './program/receive-progress.ts'
import { reconcileTranscodeJob } from './program/reconcile.ts'
import { type Controller, createController } from './runtime/controller.ts'
import { eventRecorder } from './runtime/events.ts'
import { type Leadership, seekLeadership } from './runtime/leader.ts'
import { progressHandler } from './runtime/progress-receiver.ts'
import { PRIORITY } from './runtime/queue.ts'
import { openServers } from './servers.ts'

const CONTROLLER = 'transcodejob'
const EVENT_SOURCE = 'keepsake.dev/operator'
/** Every resource is reconciled again after this time, in case the operator missed a change. */
const RESYNC_MS = 600_000

export interface OperatorOptions {
  config: OperatorConfig
  /** Owned by the caller, who closes it. */
  cluster: Cluster
  log: Log
  now?: () => Date
  metrics?: OperatorMetrics
  /** The lease was lost, or the caches did not become complete in time: the process must end. */
  onFatal?(error: Error): void
  /** For tests: intervals of progress writes and of leader election. */
  tuning?: {
    progressIntervalMs?: number
    leader?: { leaseDurationMs: number; renewDeadlineMs: number; retryPeriodMs: number }
  }
}

export interface Operator {
  /** The URL that pods post progress to, with its path. */
  progressUrl: string
  healthUrl: string
  metricsUrl: string
  isLeading(): boolean
  /** Finishes running reconciles, releases the lease and closes everything that the operator opened. */
  close(): Promise<void>
}

/**
 * Starts the operator: caches, progress receiver, health and metrics at once, workers as soon as this replica leads.
 * Resolves when the servers listen, not when the replica leads.
 */
export async function startOperator(options: OperatorOptions): Promise<Operator> {
  const { config, cluster, log, tuning = {} } = options
  const now = options.now ?? (() => new Date())
  const metrics = options.metrics ?? operatorMetrics()
  const stopping = new AbortController()
  // Open the servers first and do the rest without awaiting: no cache may report a change before its queue exists.
  let controller: Controller | undefined
  let progress: TranscodeProgressWriter | undefined
  const isSynced = () => controller?.isSynced() === true
  const servers = await openServers(config, metrics, {
    progress: progressHandler({
      key: config.PROGRESS_KEY,
      stateOf: (subject) => progress?.stateOf(subject) ?? 'unknown',
      accept: (subject, report) => progress?.accept(subject, report),
      onAnswer: metrics.answered,
      log,
    }),
    isReady: () => isSynced() && !stopping.signal.aborted,
  })
  const progressUrl = config.PROGRESS_URL ?? `${servers.progress.url}/progress`

  const caches = openCaches({
    cluster,
    namespace: config.WATCH_NAMESPACE,
    onChange: (key, urgency) => running.enqueue(key, isSynced() ? { priority: PRIORITY.live + urgency } : {}),
    onGone: ({ metadata }) => receiver.forget(metadata.uid ?? ''),
    onInterrupted: (resource) => metrics.interrupted(resource.plural),
  })
  const gpuNodes =
    config.GPU_AVAILABLE === 'detect' ? followGpuNodes(cluster, () => metrics.interrupted(NODES.plural)) : undefined
  const plurals = [TRANSCODE_JOBS, JOBS, PODS].map((r) => r.plural)
  metrics.watchCaches(caches, plurals)
  const intervalMs = tuning.progressIntervalMs ?? 5_000
  const receiver = transcodeProgress({ cluster, caches, isSynced, now, log, intervalMs })
  progress = receiver

  const identity = `${config.IDENTITY}_${randomUUID().slice(0, 8)}`
  const leadership = config.LEADER_ELECTION ? seek(identity) : undefined
  const events = eventRecorder({ cluster, log, controller: EVENT_SOURCE, instance: identity, now })
  const isLeading = () => leadership?.isLeading() ?? true
  const running = createController({
    name: CONTROLLER,
    concurrency: config.RECONCILE_CONCURRENCY,
    caches: [...caches.all, ...(gpuNodes ? [gpuNodes.cache] : [])],
    log,
    metrics: metrics.controller(CONTROLLER),
    reconcile: reconcileTranscodeJob({
      cluster,
      caches,
      config: childConfig(config, progressUrl, gpuNodes),
      events,
      mayWrite: isLeading,
      now,
    }),
  })
  controller = running
  const work = lead().catch((error: unknown) => {
    if (!stopping.signal.aborted) options.onFatal?.(error instanceof Error ? error : new Error(String(error)))
  })
  const resync = setInterval(() => {
    for (const { metadata } of caches.resources.list()) {
      running.enqueue({ namespace: metadata.namespace ?? '', name: metadata.name }, { priority: PRIORITY.initial })
    }
  }, RESYNC_MS)

  function seek(by: string): Leadership {
    metrics.leading(config.LEASE_NAME, false)
    const lease = { namespace: config.LEASE_NAMESPACE, name: config.LEASE_NAME }
    return seekLeadership({ cluster, lease, identity: by, log, now, ...tuning.leader })
  }

  async function lead(): Promise<void> {
    await leadership?.acquired
    metrics.leading(config.LEASE_NAME, true)
    void leadership?.lost.then(() => {
      metrics.leading(config.LEASE_NAME, false)
      options.onFatal?.(new Error('The lease is lost: another process may be leading'))
    }, undefined)
    await running.start(leadership?.signal ?? new AbortController().signal)
    log.info({ identity, namespace: config.WATCH_NAMESPACE ?? '(all)' }, 'workers started')
  }

  let closing: Promise<void> | undefined
  async function closeAll(): Promise<void> {
    stopping.abort()
    clearInterval(resync)
    await running.stop() // before resigning: running reconciles may still write
    await leadership?.resign()
    metrics.leading(config.LEASE_NAME, false)
    await work
    await servers.progress.close()
    await receiver.close()
    await events.flush()
    await Promise.all([caches.stop(), gpuNodes?.cache.stop()])
    await Promise.all([servers.health.close(), servers.metrics.close()])
  }

  return {
    progressUrl,
    healthUrl: servers.health.url,
    metricsUrl: `${servers.metrics.url}/metrics`,
    isLeading,
    close() {
      closing ??= closeAll()
      return closing
    },
  }
}

const childConfig = (config: OperatorConfig, progressUrl: string, gpuNodes: GpuNodes | undefined): ChildConfig => ({
  image: config.JOB_IMAGE,
  storeSecret: config.STORE_SECRET,
  serviceAccount: config.JOB_SERVICE_ACCOUNT,
  progressUrl,
  progressKey: config.PROGRESS_KEY,
  get gpuAvailable() {
    return gpuNodes?.any() ?? config.GPU_AVAILABLE === true
  },
  gpuWaitSeconds: config.GPU_WAIT_SECONDS,
  cpu: config.JOB_CPU,
  cpuBackfill: config.JOB_CPU_BACKFILL,
  memory: config.JOB_MEMORY,
  memoryMax: config.JOB_MEMORY_MAX,
  scratch: config.JOB_SCRATCH,
  logLevel: config.LOG_LEVEL,
  priorityClasses: config.JOB_PRIORITY_CLASSES as ChildConfig['priorityClasses'],
  nodeSelector: config.JOB_NODE_SELECTOR,
  tolerations: config.JOB_TOLERATIONS,
})
