import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Reflection } from '../lib/runtime/kube/cluster.ts'
import type { RequestSeen } from '../lib/runtime/kube/http.ts'
import type { ProgramKind, RawResource } from './program/kind.ts'
import { controllerMetrics } from './runtime/metrics.ts'
import { processMetrics } from './runtime/process-metrics.ts'

const PHASES = ['Pending', 'Running', 'Suspended', 'Succeeded', 'Failed'] as const
const ANSWERS = [202, 400, 401, 404, 405, 410, 413, 500, 503]
const SECONDS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60]

/** All metrics of the operator, in their own registry. */
export function operatorMetrics() {
  const registry = new Registry()
  const registers = [registry]
  processMetrics(registry)
  const leader = new Gauge({
    name: 'leader_election_master_status',
    help: '1 while this process leads',
    labelNames: ['name'],
    registers,
  })
  const interrupted = new Counter({
    name: 'keepsake_watch_interruptions_total',
    help: 'Interruptions of watches, which resume automatically',
    labelNames: ['resource'],
    registers,
  })
  const answers = new Counter({
    name: 'keepsake_progress_reports_total',
    help: 'Progress reports by HTTP status',
    labelNames: ['code'],
    registers,
  })
  const requests = new Counter({
    name: 'rest_client_requests_total',
    help: 'Requests to the API server',
    labelNames: ['code', 'method', 'host'],
    registers,
  })
  const requestTime = new Histogram({
    name: 'rest_client_request_duration_seconds',
    help: 'Time until the headers of the answer of the API server',
    labelNames: ['verb', 'host'],
    buckets: SECONDS,
    registers,
  })
  // Cached, because looking up a series by its labels costs more than incrementing it.
  const known = new Map<string, { count: Counter.Internal; time: Histogram.Internal<'verb' | 'host'> }>()
  function seriesOf(method: string, host: string, code: string) {
    const key = `${method} ${code} ${host}`
    let series = known.get(key)
    if (!series) {
      series = { count: requests.labels({ code, method, host }), time: requestTime.labels({ verb: method, host }) }
      known.set(key, series)
    }
    return series
  }
  for (const code of ANSWERS) answers.inc({ code: String(code) }, 0)

  return {
    registry,
    controller: controllerMetrics(registry),
    leading: (lease: string, is: boolean) => leader.set({ name: lease }, is ? 1 : 0),
    interrupted: (resource: string, n = 1) => interrupted.inc({ resource }, n),
    answered: (code: number) => answers.inc({ code: String(code) }),
    requested({ method, host, code, seconds }: RequestSeen): void {
      const series = seriesOf(method, host, code)
      series.count.inc()
      series.time.observe(seconds)
    },
    /** A gauge that reads the caches, by the plural of their resources, at each scrape. */
    watchCaches(caches: ReadonlyMap<string, { list(): unknown[] }>): void {
      for (const resource of caches.keys()) interrupted.inc({ resource }, 0)
      new Gauge({
        name: 'keepsake_cache_objects',
        help: 'Objects in the cache',
        labelNames: ['resource'],
        registers,
        collect() {
          for (const [resource, cache] of caches) this.set({ resource }, cache.list().length)
        },
      })
    },
    /** A gauge that counts the resources of a kind at each scrape. */
    watchPhases({ gauge, resource }: ProgramKind, resources: Pick<Reflection<RawResource>, 'list'>): void {
      new Gauge({
        name: gauge,
        help: `${resource.kind}s by phase`,
        labelNames: ['phase'],
        registers,
        collect() {
          const counts = new Map<string, number>(PHASES.map((p) => [p, 0]))
          for (const { status } of resources.list()) {
            const phase = status?.phase ?? 'Pending'
            counts.set(phase, (counts.get(phase) ?? 0) + 1)
          }
          for (const [phase, n] of counts) this.set({ phase }, n)
        },
      })
    },
  }
}
export type OperatorMetrics = ReturnType<typeof operatorMetrics>
