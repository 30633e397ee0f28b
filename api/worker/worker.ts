import type { RequestListener } from 'node:http'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { Clock } from '../../lib/runtime/clock.ts'
import type { EventBus } from '../../lib/runtime/event-bus/event-bus.ts'
import type { Cluster } from '../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { sweepAttempts } from '../audit/archive/attempts.ts'
import { prepareDays } from '../audit/days.ts'
import { openMasterKeys } from '../audit/master-keys.ts'
import { openPersonalData } from '../audit/personal-data.ts'
import { SEAL_GAUGES, startSealer } from '../audit/sealer.ts'
import type { Database } from '../db/db.ts'
import { listenForNotifications, type OnNotify } from '../db/notification-listener.ts'
import { probes } from '../health/probes.ts'
import { readiness } from '../health/readiness.ts'
import { cleanUp } from './clean-up.ts'
import type { WorkerConfig } from './config.ts'
import { startConsumers } from './consumers/start.ts'
import type { ClusterSeen, RepairOptions, WorkedKind, WorkerGate, WorkerPart } from './feature-worker.ts'
import { openWorkerMetrics, type WorkerMetrics } from './metrics.ts'
import { runReactions } from './reactions.ts'
import { startRelay } from './relay.ts'
import { type SideServer, serveAside } from './side-server.ts'
import { type SweepTask, startSweep } from './sweep.ts'

export interface WorkerParts<C extends WorkerConfig = WorkerConfig> {
  config: C
  /** Get the same configuration, of which each reads its own part. */
  features: readonly Pick<WorkerPart, 'start' | 'gate'>[]
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
export async function startWorker<C extends WorkerConfig>(parts: WorkerParts<C>): Promise<RunningWorker> {
  const { config, db, log } = parts
  let gates: readonly WorkerGate[] = []
  const state = readiness(db, async () => void (await Promise.all(gates.map((gate) => gate.ready()))))
  const metrics = openWorkerMetrics(db)
  // The parts that can fail start first: a port in use must not leave loops running.
  const health = await serveAside(probes({ ready: state.ready }, log), config.HOST, config.HEALTH_PORT)
  let metricsServer: SideServer
  try {
    metricsServer = await serveAside(metricsListener(metrics), config.HOST, config.METRICS_PORT)
  } catch (error) {
    await health.close()
    throw error
  }

  const ungated = { ...parts, namespace: config.NAMESPACE, ...metrics }
  gates = parts.features.flatMap(({ gate }) => gate?.(ungated) ?? [])
  const opened = Promise.all(gates.map((gate) => gate.opened)).then((are) => are.every((isOpen) => isOpen))
  const deps = { ...ungated, opened }
  const features = parts.features.map(({ start }) => start(deps))
  metrics.showRows([...SEAL_GAUGES, ...features.flatMap(({ gauges = [] }) => gauges)])
  const kinds = followAll(features.flatMap((feature) => feature.kinds ?? []))
  for (const { kind, seen } of kinds) metrics.showWaiting(kind.kind, seen.follower.waiting)
  const consumers = startConsumers(
    { ...deps, url: config.DATABASE_URL },
    features.flatMap((feature) => feature.consumers ?? []),
  )
  const reactions = features.flatMap(({ reactions: its = {} }) => its)
  const reactsTo = reactions.flatMap((its) => Object.keys(its))
  const relay = startRelay(
    { ...deps, react: runReactions(reactions), reactsTo },
    { pollMs: config.POLL_MS, leaseSeconds: config.LEASE_SECONDS },
  )
  const personalData = openPersonalData({ db, masters: openMasterKeys(config.AUDIT_KEYS) })
  const sealer = startSealer({ ...parts, personalData })
  const optionsFor = (idleSeconds: number): RepairOptions => ({
    idleSeconds,
    marginSeconds: config.STUCK_MARGIN_SECONDS,
    giveUpSeconds: config.GIVE_UP_SECONDS,
  })
  const sweep = startSweep({
    log,
    tasks: [
      ...kinds.map(({ kind, seen }): SweepTask => {
        return { name: kind.name, run: (idle, signal) => kind.sweep(seen, optionsFor(idle), signal) }
      }),
      ...features.flatMap(({ tasks = [] }) => tasks),
      { name: 'audit-days', run: () => prepareDays(db) },
      { name: 'audit-attempts', run: (_, signal) => sweepAttempts(parts, signal) },
      { name: 'dead-letters', run: async () => consumers.wake() },
      { name: 'clean-up', run: (_, signal) => cleanUp(db, signal) },
    ],
    sweepSeconds: config.SWEEP_SECONDS,
    idleSeconds: config.SWEEP_IDLE_SECONDS,
    synced: Promise.all(kinds.map(({ seen }) => seen.follower.reflection.synced())),
    onSwept: metrics.onSwept,
  })
  const repairs = repairsOf(kinds, optionsFor(0), log)
  const channels = Object.assign(
    { outbox: relay.wake, dead_letters: consumers.wake, audit_keys: personalData.forget },
    ...features.map((f) => f.channels),
    repairs.channels,
  )
  const listener = listenForNotifications({ url: config.DATABASE_URL, channels, log })
  log.info({ healthUrl: health.url, metricsUrl: metricsServer.url, namespace: config.NAMESPACE }, 'working')

  async function close(): Promise<void> {
    state.drain()
    await Promise.all(gates.map((gate) => gate.stop()))
    await Promise.all([listener.close(), sweep.stop(), repairs.settled()])
    await Promise.all([relay.stop(), sealer.stop()])
    await consumers.stop()
    await Promise.all(features.map(async (feature) => feature.stop?.()))
    await Promise.all(kinds.map(({ seen }) => seen.follower.stop()))
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

type Followed = ReturnType<typeof followAll>[number]

/** Every kind sees the resources of all, which wait for the same nodes. */
function followAll(kinds: readonly WorkedKind[]) {
  const followers = kinds.map((kind) => ({ kind, follower: kind.follow() }))
  const queue = () => followers.flatMap(({ follower }) => follower.reflection.list())
  return followers.map(({ kind, follower }) => ({ kind, seen: { follower, queue } satisfies ClusterSeen }))
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

/** Looks at single rows as soon as a notification names them. The sweep is the backstop for missed ones. */
function repairsOf(kinds: readonly Followed[], options: RepairOptions, log: Log) {
  const running = new Set<Promise<void>>()
  const channels: Record<string, OnNotify> = {}
  for (const { kind, seen } of kinds) {
    if (!kind.repair) continue
    const { channel, row } = kind.repair
    channels[channel] = (id) => {
      if (!id) return
      const work = row(seen, options, id as Uuid)
        .catch((error: unknown) => log.warn({ err: error, kind: kind.kind, id }, 'could not look at a row'))
        .finally(() => running.delete(work))
      running.add(work)
    }
  }
  return { channels, settled: () => Promise.all(running) }
}
