import type { RequestListener } from 'node:http'
import { HIGHLIGHT_RENDERS } from '../../crds/highlight-render.ts'
import { TRANSCODE_JOBS } from '../../crds/transcode-job.ts'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { Clock } from '../../lib/runtime/clock.ts'
import type { EventBus } from '../../lib/runtime/event-bus/event-bus.ts'
import type { Cluster } from '../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../db/db.ts'
import { startFilmAdmission } from '../features/highlights/render/admission.ts'
import { followRenders, type RenderFollower } from '../features/highlights/render/project.ts'
import { purgeFilms } from '../features/highlights/render/purge.ts'
import { highlightReactions } from '../features/highlights/render/reactions.ts'
import { sweepRenders } from '../features/highlights/render/sweep.ts'
import { startVideoAdmission } from '../features/media/conversion/admission.ts'
import { startBatches } from '../features/media/conversion/batches.ts'
import { type ConversionFollower, followConversions } from '../features/media/conversion/project.ts'
import { conversionReactions } from '../features/media/conversion/reactions.ts'
import { repairConversion, type SweepOptions, sweepConversions } from '../features/media/conversion/sweep.ts'
import { purgeDue, sweepPurged } from '../features/media/deletion/purge.ts'
import { pairLeftHalves } from '../features/media/pair-left.ts'
import { probes } from '../health/probes.ts'
import { readiness } from '../health/readiness.ts'
import { cleanUp } from './clean-up.ts'
import type { WorkerConfig } from './config.ts'
import { openWorkerMetrics, type WorkerMetrics } from './metrics.ts'
import { listenForNotifications } from './notification-listener.ts'
import { runReactions } from './reactions.ts'
import { startRelay } from './relay.ts'
import { type SideServer, serveAside } from './side-server.ts'
import { type SweepTask, startSweep } from './sweep.ts'

export interface WorkerParts {
  config: WorkerConfig
  /** Connected as keepsake_worker. */
  db: Database
  store: ObjectStore
  bus: EventBus
  cluster: Cluster
  log: Log
  clock: Clock
}

export interface RunningWorker {
  healthUrl: string
  metricsUrl: string
  /** Takes on no new work and finishes what it has begun. Leaves open what the caller opened. */
  close(): Promise<void>
}

/** Starts all parts of the worker. Any number of workers may run at once; one that dies loses nothing. */
export async function startWorker(parts: WorkerParts): Promise<RunningWorker> {
  const { config, db, log } = parts
  const state = readiness(db)
  let followers: { projector: ConversionFollower; renders: RenderFollower } | undefined
  const metrics = openWorkerMetrics(db, () => ({
    [TRANSCODE_JOBS.kind]: followers?.projector.waiting() ?? 0,
    [HIGHLIGHT_RENDERS.kind]: followers?.renders.waiting() ?? 0,
  }))
  // The parts that can fail start first: a port in use must not leave loops running.
  const health = await serveAside(probes(state.ready, log), config.HOST, config.HEALTH_PORT)
  let metricsServer: SideServer
  try {
    metricsServer = await serveAside(metricsListener(metrics), config.HOST, config.METRICS_PORT)
  } catch (error) {
    await health.close()
    throw error
  }

  const deps = { ...parts, namespace: config.NAMESPACE, ...metrics }
  followers = { projector: followConversions(deps), renders: followRenders(deps) }
  const { projector, renders } = followers
  const admission = startVideoAdmission(deps, { maxPerOrganization: config.MAX_CONVERSIONS_PER_ORGANIZATION })
  const films = startFilmAdmission(deps, { maxPerOrganization: config.MAX_FILMS_PER_ORGANIZATION })
  const batches = startBatches(deps, {
    interactive: config.MAX_CONVERSIONS_PER_ORGANIZATION,
    backfill: config.MAX_BACKFILL_BATCHES_PER_ORGANIZATION,
  })
  const relay = startRelay(
    {
      ...deps,
      react: runReactions([
        conversionReactions({ ...deps, admission, batches }),
        highlightReactions({ ...deps, films }),
      ]),
    },
    { pollMs: config.POLL_MS, leaseSeconds: config.LEASE_SECONDS },
  )
  const channels = {
    outbox: () => relay.wake(),
    conversions: (orgId?: string) => admission.wake(orgId as Uuid | undefined),
    images: (orgId?: string) => batches.wake(orgId as Uuid | undefined),
    films: (orgId?: string) => films.wake(orgId as Uuid | undefined),
    restored: (id?: string) => id && restored.repair(id as Uuid),
  }
  const optionsFor = (idleSeconds: number): SweepOptions => ({
    idleSeconds,
    marginSeconds: config.STUCK_MARGIN_SECONDS,
    giveUpSeconds: config.GIVE_UP_SECONDS,
  })
  const swept = { ...deps, projector, renders, admission, batches, films }
  const restored = repairs(swept, optionsFor(0))
  const sweep = startSweep({
    log,
    tasks: sweepTasks(swept, optionsFor),
    sweepSeconds: config.SWEEP_SECONDS,
    idleSeconds: config.SWEEP_IDLE_SECONDS,
    synced: Promise.all([projector.reflection.synced(), renders.reflection.synced()]),
    onSwept: metrics.onSwept,
  })
  const listener = listenForNotifications({ url: config.DATABASE_URL, channels, log })
  log.info({ healthUrl: health.url, metricsUrl: metricsServer.url, namespace: config.NAMESPACE }, 'working')

  async function close(): Promise<void> {
    state.drain()
    await Promise.all([listener.close(), sweep.stop(), restored.settled()])
    await relay.stop()
    await Promise.all([admission.stop(), batches.stop(), films.stop()])
    await Promise.all([projector.stop(), renders.stop()])
    await Promise.all([health.close(), metricsServer.close()])
  }
  let closed: Promise<void> | undefined
  return {
    healthUrl: health.url,
    metricsUrl: metricsServer.url,
    close() {
      closed ??= close()
      return closed
    },
  }
}

const metricsListener =
  (metrics: WorkerMetrics): RequestListener =>
  (req, res) => {
    if (req.url !== '/metrics' || req.method !== 'GET') return void res.writeHead(404).end()
    metrics.text().then(
      ({ body, contentType }) => res.writeHead(200, { 'Content-Type': contentType }).end(body),
      () => res.writeHead(500).end(),
    )
  }

/** By then no API of the version before runs any more. */
const UPGRADE_MS = 15 * 60_000

type SweepParts = Parameters<typeof sweepConversions>[0] &
  Parameters<typeof sweepRenders>[0] &
  Parameters<typeof purgeDue>[0]

/** What one sweep does, in this order. */
function sweepTasks(parts: SweepParts, optionsFor: (idleSeconds: number) => SweepOptions): SweepTask[] {
  const startedAt = performance.now()
  const isUpgrading = () => performance.now() - startedAt < UPGRADE_MS
  return [
    { name: 'conversions', run: (idleSeconds, signal) => sweepConversions(parts, optionsFor(idleSeconds), signal) },
    { name: 'renders', run: (idleSeconds, signal) => sweepRenders(parts, optionsFor(idleSeconds), signal) },
    { name: 'pairs', run: async (_, signal) => isUpgrading() && pairLeftHalves(parts.db, signal) },
    { name: 'clean-up', run: (_, signal) => cleanUp(parts, signal) },
    { name: 'purge', run: (_, signal) => purgeDue(parts, { signal }) },
    { name: 'films', run: (_, signal) => purgeFilms(parts, { signal }) },
    { name: 'purged', run: (_, signal) => sweepPurged(parts, { signal }) },
  ]
}

/** Looks at conversions now whose media items came back from the trash. The sweep is the backstop for missed ones. */
function repairs(deps: Parameters<typeof repairConversion>[0], options: SweepOptions) {
  const running = new Set<Promise<void>>()
  return {
    repair(id: Uuid): void {
      const work = repairConversion(deps, options, id)
        .catch((error: unknown) => deps.log.warn({ err: error, media: id }, 'could not look at a restored media item'))
        .finally(() => running.delete(work))
      running.add(work)
    },
    settled: () => Promise.all(running),
  }
}
