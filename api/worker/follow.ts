import type { Cluster, KubeObject, Reflection, Resource } from '../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { keyedQueue } from './keyed-queue.ts'
import { ManifestError } from './read-manifest.ts'

/** A kind of custom resources whose state belongs into Postgres. */
export interface Followed<T extends KubeObject, F extends { state: string }> {
  resource: Resource
  /** What a resource says, in the terms of its feature. Pure; the same resource gives the same facts. */
  factsOf(object: T): F[]
  /**
   * Records a fact. The watch may repeat itself, skip steps and start over, and several workers may watch: the row must
   * guard the move. Returns whether there was a new state. When `isLastAttempt`, an unusable manifest is recorded as a
   * failure; before, it throws ManifestError.
   */
  record(fact: F, isLastAttempt: boolean): Promise<boolean>
}

export interface FollowDeps {
  cluster: Pick<Cluster, 'reflect'>
  namespace: string
  log: Log
  onProjected?(kind: string, state: string): void
}

export interface FollowOptions {
  /** Shortest time between two records of the progress of one resource. */
  progressMs?: number
  concurrency?: number
  /** After this many attempts an unusable manifest is final; outages of the store do not count. */
  manifestAttempts?: number
  backoffMs?: (attempts: number) => number
}

export interface Follower<T> {
  /** Looks at one resource again, even if it is unchanged. */
  lookAgain(name: string): void
  reflection: Reflection<T>
  /** Number of resources whose state is not recorded yet. */
  waiting(): number
  stop(): Promise<void>
}

/** Watches the resources of a kind and records what they say, each state once. Retries with a growing delay. */
export function follow<T extends KubeObject, F extends { state: string }>(
  deps: FollowDeps,
  kind: Followed<T, F>,
  options: FollowOptions = {},
): Follower<T> {
  const { log } = deps
  const { progressMs = 2000, concurrency = 4, backoffMs } = options
  /** The last recorded state per resource: a list that starts over costs no queries. */
  const projected = new Map<string, { text: string; atMs: number }>()

  /** How often a resource reported success and its manifest was unusable. */
  const unusable = new Map<string, number>()
  const forget = (name: string) => {
    projected.delete(name)
    unusable.delete(name)
  }

  async function look(name: string): Promise<{ againAfterMs: number } | undefined> {
    const job = reflection.get({ namespace: deps.namespace, name })
    if (!job) return void forget(name)
    const facts = kind.factsOf(job)
    const text = JSON.stringify([job.metadata.uid, facts])
    const last = projected.get(name)
    if (last?.text === text) return
    // Not the time of day: if that is set back, progress would wait for as long.
    const nowMs = performance.now()
    // Only the progress of what runs can wait; its end is recorded at once.
    const waitMs = last && facts.some((f) => f.state === 'running') ? last.atMs + progressMs - nowMs : 0
    if (waitMs > 0) return { againAfterMs: Math.min(waitMs, progressMs) }
    await projectAll(name, facts)
    projected.set(name, { text, atMs: nowMs })
    return
  }

  async function projectAll(name: string, facts: readonly F[]): Promise<void> {
    const failures = unusable.get(name) ?? 0
    const isLastAttempt = failures + 1 >= (options.manifestAttempts ?? 6)
    const errors: unknown[] = []
    for (const fact of facts) {
      try {
        if (await kind.record(fact, isLastAttempt)) deps.onProjected?.(kind.resource.kind, fact.state)
      } catch (error) {
        // The other facts of the resource do not wait for this one.
        errors.push(error)
      }
    }
    if (errors.some((error) => error instanceof ManifestError)) unusable.set(name, failures + 1)
    else unusable.delete(name)
    if (errors.length > 0) throw errors[0]
  }

  const queue = keyedQueue({
    concurrency,
    look,
    onError: (error, name, attempt) =>
      log.warn({ err: error, kind: kind.resource.kind, name, attempt }, 'could not record a resource; retrying'),
    ...(backoffMs && { backoffMs }),
  })
  const reflection = deps.cluster.reflect<T>(
    kind.resource,
    {
      onSet: (job) => queue.add(job.metadata.name),
      onDelete: (job) => queue.add(job.metadata.name),
      onError: (error, retryInMs) =>
        log.debug({ err: error, kind: kind.resource.kind, retryInMs }, 'the watch was interrupted'),
    },
    { namespace: deps.namespace },
  )
  return {
    reflection,
    lookAgain(name) {
      projected.delete(name)
      queue.add(name)
    },
    waiting: queue.size,
    async stop() {
      await reflection.stop()
      await queue.stop()
    },
  }
}
