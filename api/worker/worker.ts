import type { RequestListener } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { Clock } from '../../lib/runtime/clock.ts'
import type { EventBus } from '../../lib/runtime/event-bus/event-bus.ts'
import type { Cluster } from '../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../db/db.ts'
import { probes } from '../health/probes.ts'
import { readiness } from '../health/readiness.ts'
import { type Admission, startAdmission } from './admission.ts'
import { type Batches, startBatches } from './batches.ts'
import type { WorkerConfig } from './config.ts'
import { openWorkerMetrics, type WorkerMetrics } from './metrics.ts'
import { listenForNotifications } from './notification-listener.ts'
import { pairLeftHalves } from './pair-left.ts'
import { type Projector, startProjector } from './projector.ts'
import { purgeDue, sweepPurged } from './purge.ts'
import { reactions } from './reactions.ts'
import { startRelay } from './relay.ts'
import { type SideServer, serveAside } from './side-server.ts'
import { cleanUp, repairConversion, type SweepOptions, sweepConversions } from './sweep.ts'

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
  let projector: Projector | undefined
  const metrics = openWorkerMetrics(db, () => projector?.waiting() ?? 0)
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
  projector = startProjector(deps)
  const admission = startAdmission(deps, { maxPerOrganization: config.MAX_CONVERSIONS_PER_ORGANIZATION })
  const batches = startBatches(deps, {
    interactive: config.MAX_CONVERSIONS_PER_ORGANIZATION,
    backfill: config.MAX_BACKFILL_BATCHES_PER_ORGANIZATION,
  })
  const relay = startRelay(
    { ...deps, react: reactions({ ...deps, admission, batches }) },
    { pollMs: config.POLL_MS, leaseSeconds: config.LEASE_SECONDS },
  )
  const channels = {
    outbox: () => relay.wake(),
    conversions: (orgId?: string) => admission.wake(orgId as Uuid | undefined),
    images: (orgId?: string) => batches.wake(orgId as Uuid | undefined),
    // The sweep is the backstop for those that were missed.
    restored: (id?: string) => id && sweep.repair(id),
  }
  const sweep = startSweep({ ...deps, config, projector, metrics, admission, batches })
  const listener = listenForNotifications({ url: config.DATABASE_URL, channels, log })
  log.info({ healthUrl: health.url, metricsUrl: metricsServer.url, namespace: config.NAMESPACE }, 'working')

  async function close(): Promise<void> {
    state.drain()
    await Promise.all([listener.close(), sweep.stop()])
    await relay.stop()
    await Promise.all([admission.stop(), batches.stop()])
    await projector?.stop()
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

type SweepParts = WorkerParts & {
  namespace: string
  projector: Projector
  metrics: WorkerMetrics
  admission: Admission
  batches: Batches
}

/** Long enough for a first list of TranscodeJobs; after it, the sweep repairs what it can without the cluster. */
const SYNC_MS = 30_000

/** By then no API of the version before runs any more. */
const UPGRADE_MS = 15 * 60_000

function startSweep(parts: SweepParts): { repair(id: Uuid): void; stop(): Promise<void> } {
  const { config, log, metrics } = parts
  const stopped = new AbortController()
  const { signal } = stopped
  const startedAt = performance.now()
  const pause = (ms: number) => sleep(ms, undefined, { signal }).catch(() => {})

  const repairs = new Set<Promise<void>>()
  const deps = { ...parts, onRepaired: metrics.onRepaired }
  const optionsFor = (idleSeconds: number): SweepOptions => ({
    idleSeconds,
    marginSeconds: config.STUCK_MARGIN_SECONDS,
    giveUpSeconds: config.GIVE_UP_SECONDS,
  })

  async function sweepOnce(idleSeconds: number): Promise<void> {
    try {
      await sweepConversions(deps, optionsFor(idleSeconds), signal)
      if (performance.now() - startedAt < UPGRADE_MS) await pairLeftHalves(parts.db, signal)
      await cleanUp(parts, signal)
      await purgeDue(parts, { signal })
      await sweepPurged(parts, { signal })
      metrics.onSwept()
    } catch (error) {
      log.warn({ err: error }, 'the sweep was interrupted')
    }
  }

  async function loop(): Promise<void> {
    await Promise.race([parts.projector.reflection.synced().catch(() => {}), pause(SYNC_MS)])
    // An earlier worker may have died in the middle of its work: the first sweep skips nothing.
    for (let idleSeconds = 0; !signal.aborted; idleSeconds = config.SWEEP_IDLE_SECONDS) {
      await sweepOnce(idleSeconds)
      // Jitter, so that several workers do not always sweep together.
      await pause(config.SWEEP_SECONDS * 1000 * (0.9 + 0.2 * Math.random()))
    }
  }

  const done = loop()
  return {
    repair(id) {
      const work = repairConversion(deps, optionsFor(0), id)
        .catch((error: unknown) => log.warn({ err: error, media: id }, 'could not look at a restored media item'))
        .finally(() => repairs.delete(work))
      repairs.add(work)
    },
    async stop() {
      stopped.abort()
      await Promise.all([done, ...repairs])
    },
  }
}
