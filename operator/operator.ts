import { randomUUID } from 'node:crypto'
import { RETENTION_POLICIES } from '../crds/retention-policy.ts'
import { type Cluster, JOBS, type KubeObject, NODES, PODS } from '../lib/runtime/kube/cluster.ts'
import type { Log } from '../lib/runtime/log.ts'
import type { OperatorConfig } from './config.ts'
import { type OwnerChanged, openJobCaches } from './jobs/caches.ts'
import { followGpuNodes, type GpuNodes } from './jobs/gpu-nodes.ts'
import { PROGRAM_KINDS } from './kinds.ts'
import { type OperatorMetrics, operatorMetrics } from './operator-metrics.ts'
import type { ProgramConfig } from './program/child.ts'
import type { ProgramKind } from './program/kind.ts'
import { progressWriter } from './program/receive-progress.ts'
import { reconcileProgram } from './program/reconcile.ts'
import { openResourceCache } from './program/resources.ts'
import { reconcileRetention } from './retention-policy/reconcile.ts'
import { openPolicyCache } from './retention-policy/resources.ts'
import { POLICY_ANNOTATION } from './retention-policy/run.ts'
import type { PodTemplate } from './retention-policy/template.ts'
import { type Controller, createController } from './runtime/controller.ts'
import { eventRecorder } from './runtime/events.ts'
import { type Leadership, seekLeadership } from './runtime/leader.ts'
import { ObjectQueue } from './runtime/object-queue.ts'
import { progressHandler } from './runtime/progress-receiver.ts'
import { WorkQueue } from './runtime/queue.ts'
import { openServers } from './servers.ts'

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
  /** The pods of the runs of RetentionPolicies. Without it none starts. */
  retentionTemplate?: PodTemplate
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
  const controllers: Controller[] = []
  const isSynced = () => controllers.length > 0 && controllers.every((c) => c.isSynced())
  const progress = progressWriter({ cluster, isSynced, now, log, intervalMs: tuning.progressIntervalMs ?? 5_000 })
  const servers = await openServers(config, metrics, {
    progress: progressHandler({
      key: config.PROGRESS_KEY,
      stateOf: progress.stateOf,
      accept: progress.accept,
      onAnswer: metrics.answered,
      log,
    }),
    isReady: () => isSynced() && !stopping.signal.aborted,
  })
  const progressUrl = config.PROGRESS_URL ?? `${servers.progress.url}/progress`

  const namespace = config.WATCH_NAMESPACE
  const onInterrupted = ({ plural }: { plural: string }) => metrics.interrupted(plural)
  const kinds = PROGRAM_KINDS.map((kind) => {
    const opened = openKind(kind, { cluster, namespace, metrics, onGone: progress.forget })
    progress.follow(kind, opened.cache.resources)
    return opened
  })
  const retention = openRetention({ cluster, namespace, metrics })
  const owners = new Map<string, OwnerChanged>([
    ...kinds.map(({ kind, cache }) => [kind.ownerAnnotation, cache.childChanged] as const),
    [POLICY_ANNOTATION, retention.cache.childChanged],
  ])
  const jobCaches = openJobCaches({ cluster, namespace, owners, onInterrupted })
  const gpuNodes = config.GPU_AVAILABLE === 'detect' ? followGpuNodes(cluster, () => onInterrupted(NODES)) : undefined
  const { jobs, pods } = jobCaches
  const counted = kinds.map(({ kind, cache }) => [kind.resource.plural, cache.resources] as const)
  const policies = [RETENTION_POLICIES.plural, retention.cache.policies] as const
  metrics.watchCaches(new Map<string, Listed>([...counted, policies, [JOBS.plural, jobs], [PODS.plural, pods]]))

  const identity = `${config.IDENTITY}_${randomUUID().slice(0, 8)}`
  const leadership = config.LEADER_ELECTION ? seek(identity) : undefined
  const events = eventRecorder({ cluster, log, controller: EVENT_SOURCE, instance: identity, now })
  const isLeading = () => leadership?.isLeading() ?? true
  let leadingSince = now()
  for (const { kind, controller, cache } of kinds) {
    controllers.push(
      createController({
        ...controller,
        concurrency: config.RECONCILE_CONCURRENCY,
        caches: [cache.resources, jobs, pods, ...(gpuNodes ? [gpuNodes.cache] : [])],
        log,
        reconcile: reconcileProgram({
          kind,
          cluster,
          caches: { ...cache, ...jobCaches },
          config: programConfig(kind, config, progressUrl, gpuNodes),
          events,
          log,
          mayWrite: isLeading,
          leadingSince: () => leadingSince,
          now,
        }),
      }),
    )
  }
  controllers.push(
    createController({
      ...retention.controller,
      concurrency: config.RECONCILE_CONCURRENCY,
      caches: [retention.cache.policies, jobs, pods],
      log,
      reconcile: reconcileRetention({
        cluster,
        caches: { ...retention.cache, ...jobCaches },
        template: options.retentionTemplate,
        events,
        onRecorded: metrics.retention.recorded,
        mayWrite: isLeading,
        now,
      }),
    }),
  )
  const queues = [
    ...kinds.map(({ controller, cache }) => ({ queue: controller.queue, objects: cache.resources as Listing })),
    { queue: retention.controller.queue, objects: retention.cache.policies as Listing },
  ]
  const work = lead().catch((error: unknown) => {
    if (!stopping.signal.aborted) options.onFatal?.(error instanceof Error ? error : new Error(String(error)))
  })
  const resync = setInterval(() => {
    for (const { queue, objects } of queues) {
      for (const { metadata } of objects.list())
        queue.resync({ namespace: metadata.namespace ?? '', name: metadata.name })
    }
  }, RESYNC_MS)

  function seek(by: string): Leadership {
    metrics.leading(config.LEASE_NAME, false)
    const lease = { namespace: config.LEASE_NAMESPACE, name: config.LEASE_NAME }
    return seekLeadership({ cluster, lease, identity: by, log, now, ...tuning.leader })
  }

  async function lead(): Promise<void> {
    await leadership?.acquired
    leadingSince = now()
    metrics.leading(config.LEASE_NAME, true)
    void leadership?.lost.then(() => {
      metrics.leading(config.LEASE_NAME, false)
      options.onFatal?.(new Error('The lease is lost: another process may be leading'))
    }, undefined)
    const signal = leadership?.signal ?? new AbortController().signal
    await Promise.all(controllers.map((c) => c.start(signal)))
    log.info({ identity, namespace: config.WATCH_NAMESPACE ?? '(all)' }, 'workers started')
  }

  let closing: Promise<void> | undefined
  async function closeAll(): Promise<void> {
    stopping.abort()
    clearInterval(resync)
    await Promise.all(controllers.map((c) => c.stop())) // before resigning: running reconciles may still write
    await leadership?.resign()
    metrics.leading(config.LEASE_NAME, false)
    await work
    await servers.progress.close()
    await progress.close()
    await events.flush()
    await Promise.all([
      ...kinds.map(({ cache }) => cache.resources.stop()),
      retention.cache.policies.stop(),
      jobCaches.stop(),
      gpuNodes?.cache.stop(),
    ])
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

interface Listed {
  list(): unknown[]
}

interface Listing {
  list(): KubeObject[]
}

interface KindOptions {
  cluster: Cluster
  namespace: string | undefined
  metrics: OperatorMetrics
  onGone(uid: string): void
}

/** The queue of a kind, and the cache that fills it. */
function openKind(kind: ProgramKind, { cluster, namespace, metrics, onGone }: KindOptions) {
  const name = kind.resource.kind.toLowerCase()
  const measured = metrics.controller(name)
  const queue = new ObjectQueue(new WorkQueue({ watcher: measured.queue }))
  const cache = openResourceCache({
    cluster,
    kind,
    namespace,
    onChange: (key, urgency) => queue.changed(key, urgency),
    onGone,
    onInterrupted: () => metrics.interrupted(kind.resource.plural),
  })
  metrics.watchPhases(kind, cache.resources)
  return { kind, cache, controller: { name, queue, metrics: measured } }
}

/** The queue of RetentionPolicies, and the cache that fills it. */
function openRetention({ cluster, namespace, metrics }: Omit<KindOptions, 'onGone'>) {
  const name = RETENTION_POLICIES.kind.toLowerCase()
  const measured = metrics.controller(name)
  const queue = new ObjectQueue(new WorkQueue({ watcher: measured.queue }))
  const cache = openPolicyCache({
    cluster,
    namespace,
    onChange: (key) => queue.changed(key),
    onInterrupted: () => metrics.interrupted(RETENTION_POLICIES.plural),
  })
  metrics.retention.watch(cache.policies)
  return { cache, controller: { name, queue, metrics: measured } }
}

const programConfig = (
  kind: ProgramKind,
  config: OperatorConfig,
  progressUrl: string,
  gpuNodes: GpuNodes | undefined,
): ProgramConfig => ({
  ...kind.size(config),
  image: config.JOB_IMAGE,
  storeSecret: config.STORE_SECRET,
  serviceAccount: config.JOB_SERVICE_ACCOUNT,
  progressUrl,
  progressKey: config.PROGRESS_KEY,
  get gpuAvailable() {
    return gpuNodes?.any() ?? config.GPU_AVAILABLE === true
  },
  gpuWaitSeconds: config.GPU_WAIT_SECONDS,
  logLevel: config.LOG_LEVEL,
  priorityClasses: config.JOB_PRIORITY_CLASSES as ProgramConfig['priorityClasses'],
  nodeSelector: config.JOB_NODE_SELECTOR,
  tolerations: config.JOB_TOLERATIONS,
  podLabels: config.JOB_POD_LABELS,
  podAnnotations: config.JOB_POD_ANNOTATIONS,
})
