import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { EventType } from '../../lib/contract/events.ts'
import type { Database } from '../db/db.ts'
import { countWaiting } from '../media/conversion/admission-queries.ts'
import type { BatchPriority } from '../media/conversion/batch-plan.ts'
import { countWaitingImages } from '../media/conversion/batch-queries.ts'
import type { Repair } from '../media/conversion/sweep-plan.ts'
import { oldestPurgeSeconds } from '../media/deletion/purge-queries.ts'
import { measureOutbox } from './queries.ts'
import type { RelayStep } from './relay.ts'

export interface WorkerMetrics {
  onPublished(type: EventType): void
  onFailed(type: string, step: RelayStep): void
  onProjected(state: string): void
  onRepaired(repair: Repair): void
  onBatched(priority: BatchPriority, images: number): void
  onPurged(mediaItems: number): void
  onObjectsDeleted(objects: number): void
  onPurgeFailed(): void
  onSwept(): void
  /** Prometheus' text format. */
  text(): Promise<{ contentType: string; body: string }>
}

const UNKNOWN = {
  unpublished: Number.NaN,
  oldestSeconds: Number.NaN,
  conversionsWaiting: Number.NaN,
  imagesWaiting: Number.NaN,
  oldestPurgeSeconds: Number.NaN,
}

/** Every scrape calls `waiting`, which counts the resources whose state is not recorded yet. */
export function openWorkerMetrics(db: Database, waiting: () => number): WorkerMetrics {
  const register = new Registry()
  collectDefaultMetrics({ register })
  const registers = [register]
  // A scrape collects these gauges at the same moment, so they share one read; none shows data of an earlier scrape.
  const backlog = sharedWhilePending(() =>
    db
      .read({}, async (tx) => ({
        ...(await measureOutbox(tx)),
        conversionsWaiting: await countWaiting(tx),
        imagesWaiting: await countWaitingImages(tx),
        oldestPurgeSeconds: await oldestPurgeSeconds(tx),
      }))
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
  new Gauge({
    name: 'conversions_waiting',
    help: 'Videos that wait for a slot of their organization; NaN when the database does not answer',
    registers,
    async collect() {
      this.set((await backlog()).conversionsWaiting)
    },
  })
  new Gauge({
    name: 'images_waiting',
    help: 'Images that wait for a batch of their organization; NaN when the database does not answer',
    registers,
    async collect() {
      this.set((await backlog()).imagesWaiting)
    },
  })
  new Gauge({
    name: 'purge_oldest_due_seconds',
    help: 'How long the purge of the oldest deleted media item has been due; 0 when none is, NaN when the database does not answer',
    registers,
    async collect() {
      this.set((await backlog()).oldestPurgeSeconds)
    },
  })
  new Gauge({
    name: 'projector_waiting',
    help: 'TranscodeJobs whose state is not recorded yet',
    registers,
    collect() {
      this.set(waiting())
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
    help: 'Conversion states recorded',
    labelNames: ['state'],
    registers,
  })
  const repaired = new Counter({
    name: 'sweep_repaired_total',
    help: 'Conversions that the sweep had to repair; more than a few mean regular losses',
    labelNames: ['repair'],
    registers,
  })
  const batches = new Counter({
    name: 'image_batches_total',
    help: 'Batches of images formed',
    labelNames: ['priority'],
    registers,
  })
  const batched = new Counter({
    name: 'batched_images_total',
    help: 'Images put into a batch; one whose batch failed as a whole counts again',
    labelNames: ['priority'],
    registers,
  })
  const purged = new Counter({ name: 'purged_media_total', help: 'Deleted media items purged', registers })
  const purgedObjects = new Counter({
    name: 'purged_objects_total',
    help: 'Objects deleted by purges, with their versions, delete markers and open uploads',
    registers,
  })
  const purgeFailed = new Counter({
    name: 'purge_failed_total',
    help: 'Failed attempts to purge a media item, or to look at its prefix again',
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
    onProjected: (state) => projected.inc({ state }),
    onRepaired: (repair) => repaired.inc({ repair }),
    onBatched: (priority, images) => {
      batches.inc({ priority })
      batched.inc({ priority }, images)
    },
    onPurged: (mediaItems) => purged.inc(mediaItems),
    onObjectsDeleted: (objects) => purgedObjects.inc(objects),
    onPurgeFailed: () => purgeFailed.inc(),
    onSwept: () => swept.setToCurrentTime(),
    text: async () => ({ body: await register.metrics(), contentType: register.contentType }),
  }
}

/** Callers share a pending answer. */
function sharedWhilePending<T>(ask: () => Promise<T>): () => Promise<T> {
  let pending: Promise<T> | undefined
  return () => {
    pending ??= ask().finally(() => {
      pending = undefined
    })
    return pending
  }
}
