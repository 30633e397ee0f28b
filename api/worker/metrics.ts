import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { EventType } from '../../lib/contract/events.ts'
import type { Database, Tx } from '../db/db.ts'
import { measureOutbox } from './queries.ts'
import type { RelayStep } from './relay.ts'

/** A number that is read from Postgres at every scrape. */
export interface GaugeOfRows {
  name: string
  help: string
  read(tx: Tx): Promise<number>
}

/** Makes a counter and returns what adds to it. */
export type CounterOf = (o: {
  name: string
  help: string
  labels?: readonly string[]
}) => (n: number, labels?: Record<string, string>) => void

export interface WorkerMetrics {
  onPublished(type: EventType): void
  onFailed(type: string, step: RelayStep): void
  onProjected(kind: string, state: string): void
  onRepaired(kind: string, repair: string): void
  onObjectsDeleted(objects: number): void
  onPurgeFailed(): void
  onSwept(): void
  counterOf: CounterOf
  /** Shows more gauges. All are read in one transaction. */
  showRows(gauges: readonly GaugeOfRows[]): void
  /** A gauge with one label, whose values every scrape reads; it has none where reading fails. */
  showEach(gauge: { name: string; help: string; label: string }, read: () => Promise<Map<string, number>>): void
  /** Every scrape calls `waiting`, which counts the resources of a kind whose state is not recorded yet. */
  showWaiting(kind: string, waiting: () => number): void
  /** Prometheus' text format. */
  text(): Promise<{ contentType: string; body: string }>
}

export function openWorkerMetrics(db: Database): WorkerMetrics {
  const register = new Registry()
  collectDefaultMetrics({ register })
  const registers = [register]
  const rows: GaugeOfRows[] = []
  const waitingOf = new Map<string, () => number>()
  // A scrape collects these gauges at the same moment, so they share one read; none shows data of an earlier scrape.
  const backlog = sharedWhilePending(() =>
    db
      .read({}, async (tx) => {
        const numbers = new Map<string, number>()
        for (const { name, read } of rows) numbers.set(name, await read(tx))
        return { ...(await measureOutbox(tx)), numbers }
      })
      .catch(() => UNKNOWN),
  )
  new Gauge({
    name: 'outbox_oldest_seconds',
    help: 'Age of the oldest unpublished event; NaN when the database does not answer',
    registers,
    async collect() {
      this.set((await backlog()).oldestSeconds)
    },
  })
  new Gauge({
    name: 'outbox_unpublished',
    help: 'Unpublished events; NaN when the database does not answer',
    registers,
    async collect() {
      this.set((await backlog()).unpublished)
    },
  })
  const showRow = (gauge: GaugeOfRows) => {
    rows.push(gauge)
    const { name, help } = gauge
    const collect = async function (this: Gauge) {
      this.set((await backlog()).numbers.get(name) ?? Number.NaN)
    }
    new Gauge({ name, help, registers, collect })
  }
  new Gauge({
    name: 'projector_waiting',
    help: 'Resources whose state is not recorded yet',
    labelNames: ['kind'],
    registers,
    collect() {
      for (const [kind, waiting] of waitingOf) this.set({ kind }, waiting())
    },
  })
  const published = new Counter({
    name: 'relay_published_total',
    help: 'Events published',
    labelNames: ['type'],
    registers,
  })
  const failed = new Counter({
    name: 'relay_failed_total',
    help: 'Failed attempts to publish, by the step that failed',
    labelNames: ['type', 'step'],
    registers,
  })
  const projected = new Counter({
    name: 'projector_written_total',
    help: 'States of resources recorded',
    labelNames: ['kind', 'state'],
    registers,
  })
  const repaired = new Counter({
    name: 'sweep_repaired_total',
    help: 'Runs that the sweep had to repair; more than a few mean regular losses',
    labelNames: ['kind', 'repair'],
    registers,
  })
  const purgedObjects = new Counter({
    name: 'purged_objects_total',
    help: 'Objects deleted by purges, with their versions, delete markers and open uploads',
    registers,
  })
  const purgeFailed = new Counter({
    name: 'purge_failed_total',
    help: 'Failed attempts to purge what was deleted, or to look at its prefix again',
    registers,
  })
  const swept = new Gauge({
    name: 'sweep_last_success_timestamp_seconds',
    help: 'When the last successful sweep ended',
    registers,
  })
  return {
    onPublished: (type) => published.inc({ type }),
    onFailed: (type, step) => failed.inc({ type, step }),
    onProjected: (kind, state) => projected.inc({ kind, state }),
    onRepaired: (kind, repair) => repaired.inc({ kind, repair }),
    onObjectsDeleted: (objects) => purgedObjects.inc(objects),
    onPurgeFailed: () => purgeFailed.inc(),
    onSwept: () => swept.setToCurrentTime(),
    counterOf({ labels = [], ...o }) {
      const counter = new Counter({ ...o, labelNames: [...labels], registers })
      return (n, of = {}) => counter.inc(of, n)
    },
    showRows: (gauges) => gauges.forEach(showRow),
    showEach({ name, help, label }, read) {
      const collect = async function (this: Gauge) {
        const values = await read().catch(() => new Map<string, number>())
        this.reset()
        for (const [value, number] of values) this.set({ [label]: value }, number)
      }
      new Gauge({ name, help, labelNames: [label], registers, collect })
    },
    showWaiting: (kind, waiting) => void waitingOf.set(kind, waiting),
    text: async () => ({ body: await register.metrics(), contentType: register.contentType }),
  }
}

const UNKNOWN = { unpublished: Number.NaN, oldestSeconds: Number.NaN, numbers: new Map<string, number>() }

/** Callers share a pending answer. */
export function sharedWhilePending<T>(ask: () => Promise<T>): () => Promise<T> {
  let pending: Promise<T> | undefined
  return () => {
    pending ??= ask().finally(() => {
      pending = undefined
    })
    return pending
  }
}
