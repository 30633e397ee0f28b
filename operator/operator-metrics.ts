import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { conditionOf } from '../crds/kind.ts'
import type { RunRecord } from '../crds/retention-policy.ts'
import { RETENTION_TARGETS, type RetentionTarget } from '../crds/retention-rules.ts'
import type { Reflection } from '../lib/runtime/kube/cluster.ts'
import type { RequestSeen } from '../lib/runtime/kube/http.ts'
import type { ProgramKind, RawResource } from './program/kind.ts'
import type { RawPolicy } from './retention-policy/resources.ts'
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

  const retention = retentionMetrics(registry)

  return {
    registry,
    retention,
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

/** Names of policies are labels here: there are a handful. */
function retentionMetrics(registry: Registry) {
  const registers = [registry]
  const runs = new Counter({
    name: 'keepsake_retention_runs_total',
    help: 'Runs of RetentionPolicies that ended',
    labelNames: ['target', 'ended'],
    registers,
  })
  const items = new Counter({
    name: 'keepsake_retention_items_total',
    help: 'What runs of RetentionPolicies did, without dry runs',
    labelNames: ['target', 'result'],
    registers,
  })
  const bytes = new Counter({
    name: 'keepsake_retention_bytes_total',
    help: 'Bytes that runs of RetentionPolicies moved or purged, without dry runs',
    labelNames: ['target'],
    registers,
  })
  for (const target of RETENTION_TARGETS) {
    runs.inc({ target, ended: 'Finished' }, 0)
    for (const result of ['moved', 'purged', 'failed']) items.inc({ target, result }, 0)
    bytes.inc({ target }, 0)
  }
  return {
    recorded(target: RetentionTarget, run: RunRecord): void {
      runs.inc({ target, ended: run.ended ?? 'Lost' })
      if (run.dryRun) return
      items.inc({ target, result: 'moved' }, run.moved)
      items.inc({ target, result: 'purged' }, run.purged)
      items.inc({ target, result: 'failed' }, run.failures)
      bytes.inc({ target }, run.bytes)
    },
    /** Gauges that read the cache at each scrape. */
    watch(policies: Pick<Reflection<RawPolicy>, 'list'>): void {
      const labelNames = ['namespace', 'policy', 'target'] as const
      const gauge = (name: string, help: string, read: (policy: RawPolicy) => number | undefined) =>
        new Gauge({
          name,
          help,
          labelNames,
          registers,
          collect() {
            this.reset() // policies come and go
            for (const policy of policies.list()) {
              const value = read(policy)
              const { namespace = '', name: called } = policy.metadata
              if (value !== undefined) this.set({ namespace, policy: called, target: policy.spec?.target ?? '' }, value)
            }
          },
        })
      gauge('keepsake_retention_policy_ready', '1 while the policy is carried out', ({ status }) =>
        conditionOf(status?.conditions, 'Ready')?.status === 'True' ? 1 : 0,
      )
      gauge(
        'keepsake_retention_last_finished_timestamp_seconds',
        'When the last run of the policy that finished its work ended, without dry runs; before the first, when the policy was created',
        // An alarm on an age does not see a series that is missing.
        ({ metadata, status }) =>
          Date.parse(status?.lastFinished ?? metadata.creationTimestamp ?? '') / 1000 || undefined,
      )
    },
  }
}
