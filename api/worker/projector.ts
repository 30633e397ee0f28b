import { TRANSCODE_JOBS } from '../../crds/transcode-job.ts'
import { manifestKey, masterKey, outputPrefix } from '../../lib/contract/object-keys.ts'
import type { Clock } from '../../lib/runtime/clock.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Cluster, KubeObject, Reflection } from '../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../db/db.ts'
import {
  type Conversion,
  completeConversion,
  failConversion,
  findConversion,
  leaveBatch,
  recordPlayable,
  recordProgress,
} from '../media/conversion.ts'
import { type Fact, factsOf, type TranscodeJobSeen } from './facts.ts'
import { keyedQueue } from './keyed-queue.ts'
import { ManifestError, readManifest } from './read-manifest.ts'
import { batchJobName } from './transcode-spec.ts'

export type TranscodeJobObject = KubeObject & TranscodeJobSeen

export interface ProjectorDeps {
  db: Database
  store: ObjectStore
  cluster: Cluster
  namespace: string
  log: Log
  clock: Clock
  onProjected?(state: Fact['state']): void
}

export interface ProjectorOptions {
  /** Shortest time between two records of the progress of one media item. */
  progressMs?: number
  concurrency?: number
  /** After this many attempts an unusable manifest fails the conversion; outages of the store do not count. */
  manifestAttempts?: number
  backoffMs?: (attempts: number) => number
}

export interface Projector {
  /** Looks at one resource again, even if it is unchanged. */
  lookAgain(name: string): void
  reflection: Reflection<TranscodeJobObject>
  /** Number of resources whose state is not recorded yet. */
  waiting(): number
  stop(): Promise<void>
}

/**
 * Records what the cluster says about conversions. The watch may repeat itself, skip steps and start over, and several
 * workers may watch: the state and generation of the media item guard every move, so each happens once.
 */
export function startProjector(deps: ProjectorDeps, options: ProjectorOptions = {}): Projector {
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
    const facts = factsOf(job)
    const text = JSON.stringify([job.metadata.uid, facts])
    const last = projected.get(name)
    if (last?.text === text) return
    const nowMs = deps.clock.now().getTime()
    // Only the progress of a running conversion can wait; the end of one is recorded at once.
    const waitMs = last && facts.some((f) => f.state === 'running') ? last.atMs + progressMs - nowMs : 0
    if (waitMs > 0) return { againAfterMs: Math.min(waitMs, progressMs) }
    await projectAll(name, facts)
    projected.set(name, { text, atMs: nowMs })
    return
  }

  async function projectAll(name: string, facts: readonly Fact[]): Promise<void> {
    const failures = unusable.get(name) ?? 0
    const isLastAttempt = failures + 1 >= (options.manifestAttempts ?? 6)
    const errors: unknown[] = []
    for (const fact of facts) {
      try {
        if (await projectFact(deps, fact, isLastAttempt)) deps.onProjected?.(fact.state)
      } catch (error) {
        // The other members of a batch do not wait for this one.
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
      log.warn({ err: error, transcodeJob: name, attempt }, 'could not record a TranscodeJob; retrying'),
    ...(backoffMs && { backoffMs }),
  })
  const reflection = deps.cluster.reflect<TranscodeJobObject>(
    TRANSCODE_JOBS,
    {
      onSet: (job) => queue.add(job.metadata.name),
      onDelete: (job) => queue.add(job.metadata.name),
      onError: (error, retryInMs) => log.debug({ err: error, retryInMs }, 'the watch of TranscodeJobs was interrupted'),
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

type FactDeps = Pick<ProjectorDeps, 'db' | 'store' | 'log'>

/**
 * Applies a fact to its media item. Returns false when there is no new state: the media item is deleted or finished, or
 * waits for another batch, or the fact is known or about an earlier generation. When `isLastAttempt`, an unusable manifest fails the conversion.
 */
export async function projectFact(deps: FactDeps, fact: Fact, isLastAttempt: boolean): Promise<boolean> {
  if (fact.state === 'queued') return false
  const media = await deps.db.read({}, (tx) => findConversion(tx, fact.mediaId))
  if (media?.uploadStatus !== 'processing') return false
  if (fact.prefix !== outputPrefix(media.orgId, media.id, media.generation)) return false
  const isNews = await moveTo(deps, media, fact, isLastAttempt)
  if (isNews) failpoint('projector.committed')
  return isNews
}

async function moveTo(
  deps: FactDeps,
  media: Conversion,
  fact: Exclude<Fact, { state: 'queued' }>,
  isLastAttempt: boolean,
): Promise<boolean> {
  switch (fact.state) {
    case 'running': {
      const isPlayable = fact.playable && (await makePlayable(deps, media, fact.prefix))
      return (await recordProgress(deps.db, media, fact)) || isPlayable
    }
    case 'succeeded':
      return complete(deps, media, fact, isLastAttempt)
    case 'failed':
      if (fact.sharedBy && media.kind === 'image') return regroup(deps, media, fact)
      return failConversion(deps.db, media, fact.error, fact.run)
  }
}

/**
 * A batch failed as a whole: one image may have ended the pod of 63 others. Images that were converted before are
 * complete, the others wait for a smaller batch. Returns whether the conversion is over.
 */
async function regroup(deps: FactDeps, media: Conversion, fact: Extract<Fact, { state: 'failed' }>): Promise<boolean> {
  const batch = media.conversionBatch
  // Batches of one generation share its prefix: only this says that the fact is about the present one.
  if (!batch || batchJobName(batch) !== fact.sharedBy) return false
  if (await deps.store.head(manifestKey(fact.prefix))) {
    try {
      return await complete(deps, media, { ...fact, state: 'succeeded' }, false)
    } catch (error) {
      if (!(error instanceof ManifestError)) throw error
    }
  }
  deps.log.warn({ media: media.id, transcodeJob: fact.sharedBy, reason: fact.error.code }, 'regrouping an image')
  await leaveBatch(deps.db, media, batch)
  return false
}

/** The job uploads the playlist before it reports it. Checked all the same: a dead link would be worse than none. */
async function makePlayable({ db, store }: FactDeps, media: Conversion, prefix: string): Promise<boolean> {
  if (media.outputPrefix !== null) return false
  const key = masterKey(prefix)
  if (!(await store.head(key))) return false
  return recordPlayable(db, media, { prefix, hlsMaster: key.slice(prefix.length) })
}

async function complete(
  deps: FactDeps,
  media: Conversion,
  { prefix, run }: Extract<Fact, { state: 'succeeded' }>,
  isLastAttempt: boolean,
): Promise<boolean> {
  try {
    const manifest = await readManifest(deps.store, media.id, prefix)
    failpoint('projector.read')
    return await completeConversion(deps.db, media, { prefix, manifest }, run)
  } catch (error) {
    if (!(error instanceof ManifestError) || !isLastAttempt) throw error
    deps.log.error({ err: error, media: media.id }, 'a conversion that succeeded left no usable manifest')
    const message = 'The result of the conversion could not be used'
    return failConversion(deps.db, media, { code: 'INTERNAL', message })
  }
}
