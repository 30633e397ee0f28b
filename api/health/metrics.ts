import type { RequestListener } from 'node:http'
import { collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Served } from '../http/access-log.ts'

export interface Metrics {
  /** Counts a request that is over. */
  served(request: Served): void
  /** Answers `GET /metrics` in Prometheus' text format, and nothing else. */
  listener: RequestListener
}

/** `keyAge` is asked at every scrape: seconds since the signing keys were fetched, undefined before the first time. */
export function openMetrics(keyAge: () => number | undefined): Metrics {
  const register = new Registry()
  collectDefaultMetrics({ register })
  const duration = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Time from the first byte of a request to the last of its answer',
    labelNames: ['method', 'route', 'status'] as const,
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300],
    registers: [register],
  })
  new Gauge({
    name: 'auth_signing_keys_age_seconds',
    help: "Age of the identity provider's keys; after a day they are not used any more",
    registers: [register],
    collect() {
      this.set(keyAge() ?? Number.NaN)
    },
  })
  return {
    served: ({ method, route, status, seconds }) =>
      duration.observe({ method, route, status: String(status) }, seconds),
    listener: (req, res) => {
      if (req.url !== '/metrics' || req.method !== 'GET') return void res.writeHead(404).end()
      register.metrics().then(
        (text) => res.writeHead(200, { 'Content-Type': register.contentType }).end(text),
        () => res.writeHead(500).end(),
      )
    },
  }
}
