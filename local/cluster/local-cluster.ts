import { mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism, homedir, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Kind } from '../../crds/kind.ts'
import { KINDS } from '../../crds/kinds.ts'
import {
  type Cluster,
  ClusterError,
  type KubeObject,
  type ObjectKey,
  PODS,
  type ReflectHandlers,
  type ReflectOptions,
  type Resource,
} from '../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { BUILT_IN, customResource } from './admission.ts'
import { runCollector } from './collector.ts'
import { type ResolveCommand, resolveFromRepository } from './command.ts'
import type { Secrets } from './environment.ts'
import { claimFolder } from './folder.ts'
import { openIsolation } from './isolation.ts'
import { runJobController } from './job-controller.ts'
import { runKubelet } from './kubelet.ts'
import { pruneOutput } from './output.ts'
import { reflectStore } from './reflection.ts'
import { runScheduler } from './scheduler.ts'
import { parseSelector } from './selector.ts'
import { Store } from './store.ts'
import { type Pod, setCondition } from './types.ts'

export interface LocalClusterOptions {
  /** For the folders of pods; one live process at a time. Default: a temporary folder, removed at the end. */
  folder?: string
  /** The folder for output of pods. Default: none; output is kept in memory until the pod is deleted. */
  logFolder?: string
  /** The custom resources. Default: those of Keepsake. */
  kinds?: readonly Kind[]
  /** How many pods run at once. Default: all cores but one. */
  maxPods?: number
  gpus?: number
  /** The value of each priority class, which orders pending pods. */
  priorityClasses?: Readonly<Record<string, number>>
  /** The Secrets that `secretRef` and `secretKeyRef` refer to. */
  secrets?: Secrets
  /** Variables of every container; those of the pod win. */
  extraEnv?: Readonly<Record<string, string>>
  /** Existing folders that containers without a Secret do not see, as far as the system permits. */
  hide?: readonly string[]
  resolveCommand?: ResolveCommand
  /** Backoff before the second attempt, doubled for each further one. Kubernetes has 10 s. */
  backoffBaseMs?: number
  /** The nice value of pods, 0 to 19. */
  niceness?: number
  memoryCheckMs?: number
  /** How long close() waits for pods to end by themselves. */
  closeGraceSeconds?: number
  log?: Log
}

export interface LocalCluster extends Cluster {
  /** The output of the pod so far; NotFound when it has not started or is deleted. */
  logs(pod: ObjectKey): string
  /** As the Eviction API: marks the pod as disrupted, which a podFailurePolicy can ignore, and deletes it. */
  evict(pod: ObjectKey): Promise<void>
}

interface ListOptions {
  namespace?: string
  labelSelector?: string
}

/**
 * A cluster inside this process: objects in memory under the rules of the API server, Jobs as child processes. Objects
 * and children end with the process. After close() every call fails with Unavailable.
 */
export function openLocalCluster(options: LocalClusterOptions = {}): LocalCluster {
  const { log } = options
  const folder = resolve(options.folder ?? mkdtempSync(join(tmpdir(), 'keepsake-cluster-')))
  const releaseFolder = claimFolder(folder)
  if (options.logFolder !== undefined) pruneOutput(options.logFolder)
  const store = new Store([...BUILT_IN, ...(options.kinds ?? KINDS).map(customResource)])
  const controllers = [
    runCollector(store),
    runJobController(store, { backoffBaseMs: options.backoffBaseMs ?? 1000, log }),
    runScheduler(store, {
      maxPods: options.maxPods ?? Math.max(1, availableParallelism() - 1),
      gpus: options.gpus ?? 0,
      priorityClasses: options.priorityClasses ?? {},
    }),
  ]
  const kubelet = runKubelet(store, {
    folder,
    logFolder: options.logFolder,
    secrets: options.secrets ?? {},
    baseEnv: { ...inheritedEnv(), ...options.extraEnv },
    resolveCommand: options.resolveCommand ?? resolveFromRepository,
    niceness: options.niceness ?? 5,
    isolation: openIsolation(options.hide ?? [], log),
    memoryCheckMs: options.memoryCheckMs ?? 1000,
    log,
  })
  const reflections = new Set<{ stop(): Promise<void> }>()
  let closing: Promise<void> | undefined

  /** As over a network: answers in a later turn of the event loop, with a copy that belongs to the caller. */
  async function call<T>(work: (store: Store) => T): Promise<T> {
    await new Promise((done) => setImmediate(done))
    if (closing) throw closed()
    return structuredClone(work(store))
  }

  async function close(): Promise<void> {
    // First, so that the Job controller does not count the end of the node as a failure of its pods.
    await Promise.all([...reflections].map((r) => r.stop()))
    for (const controller of controllers) controller.close()
    await kubelet.close(options.closeGraceSeconds ?? 5)
    releaseFolder()
    if (options.folder === undefined) rmSync(folder, { recursive: true, force: true })
  }

  return {
    reflect<T extends KubeObject>(resource: Resource, handlers: ReflectHandlers<T>, how: ReflectOptions<T> = {}) {
      if (closing) throw closed()
      const reflection = reflectStore<T>(store, resource, handlers, how)
      const entry = { stop: () => reflection.stop() }
      reflections.add(entry)
      return {
        ...reflection,
        stop: () => {
          reflections.delete(entry)
          return reflection.stop()
        },
      }
    },
    get: (resource, key) => call((s) => s.find(resource, key)),
    list: <T extends KubeObject>(resource: Resource, { namespace, labelSelector }: ListOptions = {}) =>
      call((s) => {
        const hasLabels = parseSelector(labelSelector)
        const found = s.all<T>(resource).filter(({ metadata }) => {
          return (namespace === undefined || metadata.namespace === namespace) && hasLabels(metadata.labels ?? {})
        })
        return found.sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1))
      }),
    create: (resource, object) => call((s) => s.create(resource, object)),
    replace: (resource, object) => call((s) => s.replace(resource, object)),
    patch: (resource, key, patch) => call((s) => s.patch(resource, key, patch)),
    applyStatus: (resource, key, status, manager) => call((s) => s.applyStatus(resource, key, status, manager)),
    delete: (resource, key, { uid } = {}) =>
      call((s) => {
        s.delete(resource, key, uid === undefined ? {} : { uid })
      }),
    close: () => (closing ??= close()),
    logs(key) {
      const text = kubelet.logs(key)
      if (text === undefined) throw new ClusterError('NotFound', `no output of pod ${key.name}`)
      return text
    },
    evict: (key) => call((s) => evict(s, key)),
  }
}

const closed = () => new ClusterError('Unavailable', 'the cluster is closed')
const nameOf = ({ metadata }: KubeObject) => `${metadata.namespace}/${metadata.name}`

function evict(store: Store, key: ObjectKey): void {
  const pod = store.find<Pod>(PODS, key)
  if (!pod) throw new ClusterError('NotFound', `pods "${key.name}" not found`)
  const message = 'Eviction API: evicting'
  const condition = { type: 'DisruptionTarget', status: 'True', reason: 'EvictionByEvictionAPI', message } as const
  const status = pod.status ?? { phase: 'Pending' }
  store.setStatus<Pod>(PODS, key, { ...status, conditions: setCondition(status.conditions, condition, Date.now()) })
  store.delete(PODS, key)
}

/** Of the machine's environment a pod gets only the variables that every program needs. */
function inheritedEnv(): Record<string, string> {
  const { PATH = '', LANG, NODE_COMPILE_CACHE } = process.env
  return { PATH, HOME: homedir(), ...(LANG && { LANG }), ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) }
}
