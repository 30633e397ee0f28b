import type * as z from 'zod'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { Clock } from '../../lib/runtime/clock.ts'
import type { EventBus } from '../../lib/runtime/event-bus/event-bus.ts'
import type { Cluster } from '../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../db/db.ts'
import type { OnNotify } from '../db/notification-listener.ts'
import type { WorkerConfig } from './config.ts'
import type { Consumer } from './consumers/consumer.ts'
import type { Follower } from './follow.ts'
import type { CounterOf, GaugeOfRows, WorkerMetrics } from './metrics.ts'
import type { Reactions } from './reactions.ts'
import type { RunObject } from './runs/kind.ts'
import type { SweepTask } from './sweep.ts'

/** What a feature gets from the worker. `Settings`: the part of the environment that the feature itself describes. */
export interface FeatureWorkerDeps<Settings = unknown>
  extends Pick<WorkerMetrics, 'onProjected' | 'onRepaired' | 'onObjectsDeleted' | 'onPurgeFailed'> {
  config: WorkerConfig & Settings
  /** Connected as keepsake_worker. */
  db: Database
  store: ObjectStore
  bus: Pick<EventBus, 'erase'>
  cluster: Cluster
  namespace: string
  log: Log
  clock: Clock
  counterOf: CounterOf
  /** Whether what leaves the platform, such as mail, may go; false when the worker stops before that is known. */
  opened: Promise<boolean>
}

/** What must have happened before the worker tells anyone anything. */
export interface WorkerGate {
  /** False when it is stopped before it opens. */
  opened: Promise<boolean>
  /** Throws as long as the worker is not to be counted on, also later. */
  ready(): Promise<void>
  stop(): Promise<void>
}

/** What a feature does in the worker, and the part of the environment that only it reads. */
export interface WorkerPart {
  settings: z.ZodObject
  start(deps: FeatureWorkerDeps): FeatureWorker
  gate?(deps: Omit<FeatureWorkerDeps, 'opened'>): WorkerGate
}

/** The configuration of the worker has the settings of all parts (`FullWorkerConfig`); a list of parts cannot say so. */
export const workerPart = <S extends z.ZodObject>(
  settings: S,
  start: (deps: FeatureWorkerDeps<z.output<S>>) => FeatureWorker,
  gate?: (deps: Omit<FeatureWorkerDeps<z.output<S>>, 'opened'>) => WorkerGate,
): WorkerPart => ({
  settings,
  start: (deps) => start(deps as FeatureWorkerDeps<z.output<S>>),
  ...(gate && { gate: (deps) => gate(deps as FeatureWorkerDeps<z.output<S>>) }),
})

/** What a feature brings to the worker. Any number of workers may run at once, so every part of it may run twice. */
export interface FeatureWorker {
  /** After an event, before it is published. */
  reactions?: Reactions
  kinds?: readonly WorkedKind[]
  consumers?: readonly Consumer[]
  /** Runs in every sweep, after the kinds of all features. */
  tasks?: readonly SweepTask[]
  /** By the name of the notification of Postgres. */
  channels?: Readonly<Record<string, OnNotify>>
  gauges?: readonly GaugeOfRows[]
  /** Resolves when the work in progress is done. */
  stop?(): Promise<unknown>
}

/** A kind of custom resources that carries out what rows of a feature ask for. */
export interface WorkedKind<T extends RunObject = RunObject> {
  /** The kind, in metrics. */
  kind: string
  /** Names its sweep in the log. */
  name: string
  /** Watches the resources and records what they say. */
  follow(): Follower<T>
  /** Compares the rows with the cluster and repairs what an interruption left. */
  sweep(seen: ClusterSeen<T>, options: RepairOptions, signal?: AbortSignal): Promise<void>
  /** The same for one row, now; its id is the payload of the notification. */
  repair?: { channel: string; row(seen: ClusterSeen<T>, options: RepairOptions, id: Uuid): Promise<void> }
}

/** What the worker has seen of the cluster. */
export interface ClusterSeen<T extends RunObject = RunObject> {
  follower: Pick<Follower<T>, 'reflection' | 'lookAgain'>
  /** The known resources of all kinds: they wait for the same nodes. */
  queue(): RunObject[]
}

export interface RepairOptions {
  /** The sweep skips rows that changed within this time: another worker may be busy with them. */
  idleSeconds: number
  /** How long a resource may wait to run, silently, in addition to the time of all its attempts. */
  marginSeconds: number
  /** A row without a resource fails when this worker cannot create it within this time. */
  giveUpSeconds: number
  batch?: number
}
