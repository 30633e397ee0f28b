import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { PRIORITY, type QueueWatcher, type WorkQueue } from './queue.ts'

const RECONCILE_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const QUEUE_BUCKETS = Array.from({ length: 12 }, (_, i) => 10e-9 * 10 ** i)
const RESULTS = ['success', 'error', 'requeue', 'requeue_after'] as const

/** The metrics of one controller, under the names of controller-runtime, so that stock dashboards work. */
export interface ControllerMetrics {
  reconciled(result: (typeof RESULTS)[number]): void
  errors: Counter.Internal
  terminalErrors: Counter.Internal
  panics: Counter.Internal
  timeouts: Counter.Internal
  reconcileTime: Histogram.Internal<'controller'>
  maxConcurrentReconciles: Gauge.Internal<'controller'>
  activeWorkers: Gauge.Internal<'controller'>
  queue: QueueWatcher
  /** Gauges of running work read the queue at each scrape. */
  watch(queue: WorkQueue): void
}

/** Creates the metrics of several controllers in one registry. All series of a controller exist from its start. */
export function controllerMetrics(registry: Registry): (controller: string) => ControllerMetrics {
  const registers = [registry]
  const labelNames = ['controller'] as const
  const counter = (name: string, help: string) => new Counter({ name, help, labelNames, registers })
  const gauge = (name: string, help: string) => new Gauge({ name, help, labelNames, registers })
  const queueGauge = (name: string, help: string, read: (q: WorkQueue) => number) =>
    new Gauge({
      name,
      help,
      labelNames: queueLabels,
      registers,
      collect() {
        for (const [controller, queue] of queues) this.set({ name: controller, controller }, read(queue))
      },
    })
  const queueLabels = ['name', 'controller'] as const
  const queues = new Map<string, WorkQueue>()

  const total = new Counter({
    name: 'controller_runtime_reconcile_total',
    help: 'Reconciliations per controller and result',
    labelNames: ['controller', 'result'],
    registers,
  })
  const errors = counter('controller_runtime_reconcile_errors_total', 'Reconciliations that failed')
  const terminalErrors = counter('controller_runtime_terminal_reconcile_errors_total', 'Failures that are not retried')
  const panics = counter('controller_runtime_reconcile_panics_total', 'Reconciliations that failed by a bug')
  const timeouts = counter('controller_runtime_reconcile_timeouts_total', 'Reconciliations that took too long')
  const maxConcurrent = gauge('controller_runtime_max_concurrent_reconciles', 'Number of workers')
  const activeWorkers = gauge('controller_runtime_active_workers', 'Workers running a reconciliation')
  const reconcileTime = new Histogram({
    name: 'controller_runtime_reconcile_time_seconds',
    help: 'Time per reconciliation',
    labelNames,
    buckets: RECONCILE_BUCKETS,
    registers,
  })
  const depth = new Gauge({
    name: 'workqueue_depth',
    help: 'Keys waiting',
    labelNames: [...queueLabels, 'priority'],
    registers,
  })
  const adds = new Counter({ name: 'workqueue_adds_total', help: 'Keys added', labelNames: queueLabels, registers })
  const retries = new Counter({ name: 'workqueue_retries_total', help: 'Retries', labelNames: queueLabels, registers })
  const histogram = (name: string, help: string) =>
    new Histogram({ name, help, labelNames: queueLabels, buckets: QUEUE_BUCKETS, registers })
  const waited = histogram('workqueue_queue_duration_seconds', 'Time a key waits')
  const worked = histogram('workqueue_work_duration_seconds', 'Time a key is worked on')
  queueGauge('workqueue_unfinished_work_seconds', 'Sum of the ages of work in progress', (q) =>
    q.unfinished().reduce((a, b) => a + b, 0),
  )
  queueGauge('workqueue_longest_running_processor_seconds', 'Age of the oldest work in progress', (q) =>
    Math.max(0, ...q.unfinished()),
  )

  return (controller) => {
    const label = { controller }
    const queueLabel = { name: controller, controller }
    for (const result of RESULTS) total.inc({ controller, result }, 0)
    for (const c of [errors, terminalErrors, panics, timeouts]) c.inc(label, 0)
    for (const c of [adds, retries]) c.inc(queueLabel, 0)
    for (const priority of Object.values(PRIORITY)) depth.set({ ...queueLabel, priority: String(priority) }, 0)
    for (const h of [waited, worked]) h.zero(queueLabel)
    reconcileTime.zero(label)
    activeWorkers.set(label, 0)
    const totals = Object.fromEntries(RESULTS.map((r) => [r, total.labels({ controller, result: r })])) as Record<
      (typeof RESULTS)[number],
      Counter.Internal
    >
    const depths = new Map<number, Gauge.Internal<string>>()
    const depthOf = (priority: number): Gauge.Internal<string> => {
      const known = depths.get(priority) ?? depth.labels({ ...queueLabel, priority: String(priority) })
      depths.set(priority, known)
      return known
    }
    const own = { adds: adds.labels(queueLabel), waited: waited.labels(queueLabel), worked: worked.labels(queueLabel) }
    return {
      reconciled: (result) => totals[result].inc(),
      errors: errors.labels(label),
      terminalErrors: terminalErrors.labels(label),
      panics: panics.labels(label),
      timeouts: timeouts.labels(label),
      reconcileTime: reconcileTime.labels(label),
      maxConcurrentReconciles: maxConcurrent.labels(label),
      activeWorkers: activeWorkers.labels(label),
      queue: {
        added: () => own.adds.inc(),
        depth: (priority, n) => depthOf(priority).set(n),
        started: (seconds) => own.waited.observe(seconds),
        finished: (seconds) => own.worked.observe(seconds),
        retried: () => retries.inc(queueLabel),
      },
      watch: (queue) => void queues.set(controller, queue),
    }
  }
}
