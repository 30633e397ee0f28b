import type { RequestListener } from 'node:http'
import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Served } from '../http/access-log.ts'
import type { Arrival } from '../http/bodies.ts'

export interface Metrics {
  /** Counts a completed request. */
  served(request: Served): void
  /** Counts a request that a rate limit refused. */
  limited(limitClass: string): void
  /** Counts a request refused because too many bodies were arriving, or too many transactions running. */
  shed(kind: Arrival | 'transaction' | 'event-stream'): void
  /** Counts an event stream that ended. */
  streamEnded(why: string): void
  /** All of them, for `metricsListener`, here or in another process. */
  read(): Promise<MetricsOf[]>
}

/** The metrics of one process, as values. */
export type MetricsOf = Awaited<ReturnType<Registry['getMetricsAsJSON']>>

/** Values that are read at every scrape. */
export interface Gauges {
  /** Seconds since the signing keys were fetched, undefined before the first fetch. */
  keyAge(): number | undefined
  /** Seconds since all sign-ins that had ended were known here, undefined before the first time. */
  revocationAge(): number | undefined
  /** Request bodies in transit. */
  bodies(): Record<Arrival, number>
  /** Transactions of requests. */
  transactions(): number
  /** Open event streams. */
  eventStreams(): number
}

/** `process`: the label of each value, where a replica has several processes. */
export function openMetrics(gauges: Gauges, process?: number): Metrics {
  const register = new Registry()
  if (process !== undefined) register.setDefaultLabels({ process: String(process) })
  collectDefaultMetrics({ register })
  const duration = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Time from the first byte of a request to the last byte of its response',
    labelNames: ['method', 'route', 'status'] as const,
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300],
    registers: [register],
  })
  new Gauge({
    name: 'auth_signing_keys_age_seconds',
    help: "Age of the identity provider's keys; keys older than a day are not used",
    registers: [register],
    collect() {
      this.set(gauges.keyAge() ?? Number.NaN)
    },
  })
  new Gauge({
    name: 'auth_revocations_age_seconds',
    help: 'Time since this replica last read which sign-ins have ended; beyond 5 seconds every request asks the database',
    registers: [register],
    collect() {
      this.set(gauges.revocationAge() ?? Number.NaN)
    },
  })
  new Gauge({
    name: 'http_request_bodies',
    help: 'Request bodies that are arriving, by kind; a stream is a file or a chunk',
    labelNames: ['kind'] as const,
    registers: [register],
    collect() {
      for (const [kind, count] of Object.entries(gauges.bodies())) this.set({ kind }, count)
    },
  })
  new Gauge({
    name: 'http_request_transactions',
    help: 'Database transactions of requests that are running',
    registers: [register],
    collect() {
      this.set(gauges.transactions())
    },
  })
  new Gauge({
    name: 'event_streams_open',
    help: 'Event streams of clients that follow changes',
    registers: [register],
    collect() {
      this.set(gauges.eventStreams())
    },
  })
  const streamsEnded = new Counter({
    name: 'event_streams_ended_total',
    help: 'Event streams that ended, by reason; left: the client closed its connection',
    labelNames: ['reason'] as const,
    registers: [register],
  })
  const limited = new Counter({
    name: 'rate_limited_requests_total',
    help: 'Requests refused with 429, by class of rate limits',
    labelNames: ['class'] as const,
    registers: [register],
  })
  const shed = new Counter({
    name: 'shed_requests_total',
    help: 'Requests refused with 429 or 503 because too many bodies were arriving, too many transactions running or too many event streams open, by kind',
    labelNames: ['kind'] as const,
    registers: [register],
  })
  return {
    limited: (limitClass) => limited.inc({ class: limitClass }),
    streamEnded: (reason) => streamsEnded.inc({ reason }),
    shed: (kind) => shed.inc({ kind }),
    served: ({ method, route, status, seconds }) =>
      duration.observe({ method, route, status: String(status) }, seconds),
    read: async () => [await register.getMetricsAsJSON()],
  }
}

/** Answers `GET /metrics` in Prometheus' text format, and nothing else. */
export function metricsListener(read: () => Promise<MetricsOf[]>): RequestListener {
  return (req, res) => {
    if (req.url !== '/metrics' || req.method !== 'GET') return void res.writeHead(404).end()
    textOf(read).then(
      (text) => res.writeHead(200, { 'Content-Type': Registry.PROMETHEUS_CONTENT_TYPE }).end(text),
      () => res.writeHead(500).end(),
    )
  }
}

/**
 * Values of several processes differ in their label, so none are added up here: a counter of a process that was replaced
 * begins at 0, which Prometheus understands, while a sum that falls would count the others again.
 */
async function textOf(read: () => Promise<MetricsOf[]>): Promise<string> {
  const processes = await read()
  // What says to be averaged or left out would be, with one value for each set of labels or not.
  const kept = processes.map((metrics) => metrics.map((metric) => ({ ...metric, aggregator: 'sum' })))
  return AggregatorRegistry.aggregate(kept).metrics()
}
