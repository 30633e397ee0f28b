import * as z from 'zod'
import type { Uuid } from '../../../lib/contract/ids.ts'
import { int } from '../../../lib/runtime/config.ts'
import type { FeatureWorker, FeatureWorkerDeps } from '../../worker/feature-worker.ts'
import type { CounterOf, GaugeOfRows } from '../../worker/metrics.ts'
import { countWaiting } from '../../worker/runs/admission-queries.ts'
import { workedKind } from '../../worker/runs/worked-kind.ts'
import type { SweepTask } from '../../worker/sweep.ts'
import { startVideoAdmission } from './conversion/admission.ts'
import { VIDEOS } from './conversion/admission-queries.ts'
import type { BatchPriority } from './conversion/batch-plan.ts'
import { IMAGES } from './conversion/batch-queries.ts'
import { startBatches } from './conversion/batches.ts'
import { conversionsWith } from './conversion/kind.ts'
import { conversionReactions } from './conversion/reactions.ts'
import { type PurgeDeps, purgeDue, sweepPurged } from './deletion/purge.ts'
import { oldestPurgeSeconds } from './deletion/purge-queries.ts'
import { pairLeftHalves } from './pair-left.ts'
import { forgetUploads } from './uploads/forget.ts'
import { keepHeldParts } from './uploads/keep.ts'
import { expireSessions, forgetIntents } from './uploads/release.ts'
import { sweepStaging } from './uploads/staging.ts'

export const MediaSettings = z.object({
  MAX_CONVERSIONS_PER_ORGANIZATION: int(1, 10_000)
    .default(8)
    .describe('How many videos of one organization may have a TranscodeJob at a time; the others wait in Postgres'),
  MAX_PARALLELISM: int(1, 64)
    .default(1)
    .describe('How many pods may convert a large video at the same time; each takes a slot of its organization'),
  MAX_BACKFILL_BATCHES_PER_ORGANIZATION: int(1, 10_000)
    .default(2)
    .describe('How many backfill batches of images may have a TranscodeJob at a time, per organization'),
})

export function mediaWorker(given: FeatureWorkerDeps<z.output<typeof MediaSettings>>): FeatureWorker {
  const { config } = given
  const counters = mediaCounters(given.counterOf)
  const limits = {
    maxParallelism: config.MAX_PARALLELISM,
    maxPerOrganization: config.MAX_CONVERSIONS_PER_ORGANIZATION,
  }
  const conversions = conversionsWith(limits)
  const slots = {
    admission: startVideoAdmission(given, limits),
    batches: startBatches(
      { ...given, ...counters },
      {
        interactive: config.MAX_CONVERSIONS_PER_ORGANIZATION,
        backfill: config.MAX_BACKFILL_BATCHES_PER_ORGANIZATION,
      },
    ),
  }
  const deps = { ...given, ...slots, ...counters, conversions }
  return {
    reactions: conversionReactions(deps),
    kinds: [
      // The conversion of a media item may have ended while it was in the trash.
      workedKind(given, conversions, {
        name: 'conversions',
        fillers: [slots.batches, slots.admission],
        repairOn: 'restored',
      }),
    ],
    tasks: mediaTasks(deps),
    channels: {
      // A slot became free, or a video waits for one again. The payload is the organization.
      conversions: (orgId) => slots.admission.wake(orgId as Uuid | undefined),
      // A batch may be over, or an image waits again.
      images: (orgId) => slots.batches.wake(orgId as Uuid | undefined),
    },
    gauges: MEDIA_GAUGES,
    stop: () => Promise.all([slots.admission.stop(), slots.batches.stop()]),
  }
}

export function mediaCounters(counterOf: CounterOf) {
  const batches = counterOf({ name: 'image_batches_total', help: 'Batches of images formed', labels: ['priority'] })
  const batched = counterOf({
    name: 'batched_images_total',
    help: 'Images put into a batch; one whose batch failed as a whole counts again',
    labels: ['priority'],
  })
  const purged = counterOf({ name: 'purged_media_total', help: 'Deleted media items purged' })
  return {
    onBatched(priority: BatchPriority, images: number) {
      batches(1, { priority })
      batched(images, { priority })
    },
    onPurged: (mediaItems: number) => purged(mediaItems),
  }
}

/** By then no API of the version before runs any more. */
const UPGRADE_MS = 15 * 60_000

function mediaTasks(deps: PurgeDeps): SweepTask[] {
  const { db, store, log } = deps
  const startedAt = performance.now()
  const isUpgrading = () => performance.now() - startedAt < UPGRADE_MS
  return [
    { name: 'pairs', run: async (_, signal) => isUpgrading() && pairLeftHalves(db, signal) },
    { name: 'uploads', order: 'purges', run: () => expireSessions(db, store, { log }) },
    { name: 'held-uploads', run: () => keepHeldParts(db, store, { log }) },
    { name: 'intents', run: () => forgetIntents(db, store, { log }) },
    { name: 'purge', order: 'purges', run: (_, signal) => purgeDue(deps, { signal }) },
    { name: 'staging', run: (_, signal) => sweepStaging(deps, { signal }) },
    { name: 'purged', run: (_, signal) => sweepPurged(deps, { signal }) },
    { name: 'old-uploads', run: (_, signal) => forgetUploads(db, signal) },
  ]
}

export const MEDIA_GAUGES: readonly GaugeOfRows[] = [
  {
    name: 'conversions_waiting',
    help: 'Videos that wait for a slot of their organization; NaN when the database does not answer',
    read: (tx) => countWaiting(tx, VIDEOS),
  },
  {
    name: 'images_waiting',
    help: 'Images that wait for a batch of their organization; NaN when the database does not answer',
    read: (tx) => countWaiting(tx, IMAGES),
  },
  {
    name: 'purge_oldest_due_seconds',
    help: 'How long the purge of the oldest deleted media item that no legal hold keeps has been due; 0 when none is, NaN when the database does not answer',
    read: oldestPurgeSeconds,
  },
]
