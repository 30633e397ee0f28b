import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { EventType } from '../../lib/contract/events.ts'
import type { Database } from '../db/db.ts'
import { FILMS } from '../features/highlights/render/admission-queries.ts'
import { oldestFilmPurgeSeconds } from '../features/highlights/render/queries.ts'
import { VIDEOS } from '../features/media/conversion/admission-queries.ts'
import type { BatchPriority } from '../features/media/conversion/batch-plan.ts'
import { IMAGES } from '../features/media/conversion/batch-queries.ts'
import type { Repair } from '../features/media/conversion/sweep-plan.ts'
import { oldestPurgeSeconds } from '../features/media/deletion/purge-queries.ts'
import { countWaiting } from './admission-queries.ts'
import { measureOutbox } from './queries.ts'
import type { RelayStep } from './relay.ts'

export interface WorkerMetrics {
  onPublished(type: EventType): void
  onFailed(type: string, step: RelayStep): void
  onProjected(kind: string, state: string): void
  onRepaired(kind: string, repair: Repair): void
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
  filmsWaiting: Number.NaN,
  imagesWaiting: Number.NaN,
  oldestPurgeSeconds: Number.NaN,
  oldestFilmPurgeSeconds: Number.NaN,
}

/** Every scrape calls `waiting`, which counts the resources of each kind whose state is not recorded yet. */
export function openWorkerMetrics(db: Database, waiting: () => Readonly<Record<string, number>>): WorkerMetrics {
  const register = new Registry()
  collectDefaultMetrics({ register })
  const registers = [register]
  // A scrape collects these gauges at the same moment, so they share one read; none shows data of an earlier scrape.
  const backlog = sharedWhilePending(() =>
    db
      .read({}, async (tx) => ({
        ...(await measureOutbox(tx)),
        conversionsWaiting: await countWaiting(tx, VIDEOS),
        filmsWaiting: await countWaiting(tx, FILMS),
        imagesWaiting: await countWaiting(tx, IMAGES),
        oldestPurgeSeconds: await oldestPurgeSeconds(tx),
        oldestFilmPurgeSeconds: await oldestFilmPurgeSeconds(tx),
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
    name: 'films_waiting',
    help: 'Films that wait for a slot of their organization; NaN when the database does not answer',
    registers,
    async collect() {
      this.set((await backlog()).filmsWaiting)
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
    name: 'film_purge_oldest_due_seconds',
    help: 'How long the purge of the oldest deleted or withdrawn film has been due; 0 when none is, NaN when the database does not answer',
    registers,
    async collect() {
      this.set((await backlog()).oldestFilmPurgeSeconds)
    },
  })
  new Gauge({
    name: 'projector_waiting',
    help: 'Resources whose state is not recorded yet',
    labelNames: ['kind'],
    registers,
    collect() {
      for (const [kind, resources] of Object.entries(waiting())) this.set({ kind }, resources)
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
    help: 'Conversions and renders that the sweep had to repair; more than a few mean regular losses',
    labelNames: ['kind', 'repair'],
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
    onProjected: (kind, state) => projected.inc({ kind, state }),
    onRepaired: (kind, repair) => repaired.inc({ kind, repair }),
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
