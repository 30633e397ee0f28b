import { succeededOf } from '../../../../crds/run.ts'
import { TRANSCODE_JOBS, TranscodeJobSpec } from '../../../../crds/transcode-job.ts'
import type { Uuid } from '../../../../lib/contract/ids.ts'
import { manifestKey, outputPrefix } from '../../../../lib/contract/object-keys.ts'
import type { Clock } from '../../../../lib/runtime/clock.ts'
import type { Cluster } from '../../../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../../../lib/runtime/log.ts'
import type { ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../../../db/db.ts'
import type { Admission } from '../../../worker/admission.ts'
import type { ClusterSeen, RepairOptions } from '../../../worker/feature-worker.ts'
import { removeResource } from '../../../worker/remove-resource.ts'
import { isBatchUnfinished } from './batch-queries.ts'
import type { Batches } from './batches.ts'
import { failConversion } from './commands.ts'
import { type Fact, factsOf } from './facts.ts'
import { type ConversionFollower, projectFact, type TranscodeJobObject } from './project.ts'
import { type Conversion, listProcessing } from './queries.ts'
import { startBatch, startConversion } from './start.ts'
import { queued, type Repair, type ResourceSeen, repairOf } from './sweep-plan.ts'
import { batchJobName, transcodeJobName } from './transcode-spec.ts'

export interface SweepDeps {
  db: Database
  store: ObjectStore
  cluster: Cluster
  namespace: string
  projector: Pick<ConversionFollower, 'reflection' | 'lookAgain'>
  queue: ClusterSeen['queue']
  admission: Pick<Admission, 'fill'>
  batches: Pick<Batches, 'fill'>
  log: Log
  clock: Clock
  onRepaired?(kind: string, repair: Repair): void
}

/** Compares Postgres with the cluster and repairs what an interruption left. Any number of workers may do so. */
export async function sweepConversions(deps: SweepDeps, options: RepairOptions, signal?: AbortSignal): Promise<void> {
  const limit = options.batch ?? 200
  let after: Uuid | undefined
  for (;;) {
    const page = await deps.db.read({}, (tx) => listProcessing(tx, { ...options, after, limit }))
    for (const media of page) {
      if (signal?.aborted) return
      await repairOrReport(deps, options, media)
    }
    after = page.at(-1)?.id
    if (page.length < limit) break
  }
  // The backstop for slots whose notification no worker received.
  if (!signal?.aborted) await deps.batches.fill()
  if (!signal?.aborted) await deps.admission.fill()
}

/** The same for one media item, now: its conversion may have ended while it was in the trash. */
export async function repairConversion(deps: SweepDeps, options: RepairOptions, id: Uuid): Promise<void> {
  const at = { idleSeconds: 0, after: undefined, limit: 1, only: id }
  const [media] = await deps.db.read({}, (tx) => listProcessing(tx, at))
  if (media) await repairOrReport(deps, options, media)
}

/** A media item that cannot be repaired now does not hold up the others. */
async function repairOrReport(deps: SweepDeps, options: RepairOptions, media: Conversion): Promise<void> {
  try {
    await repair(deps, options, media)
  } catch (error) {
    const idleSeconds = (deps.clock.now().getTime() - media.updatedAt.getTime()) / 1000
    deps.log.warn({ err: error, media: media.id, idleSeconds }, 'could not repair a conversion')
    if (idleSeconds < options.giveUpSeconds) return
    await timeOut(deps, media).catch((e: unknown) =>
      deps.log.error({ err: e, media: media.id }, 'could not give up a conversion'),
    )
  }
}

async function repair(deps: SweepDeps, options: RepairOptions, media: Conversion): Promise<void> {
  const prefix = outputPrefix(media.orgId, media.id, media.generation)
  const job = await findJob(deps, jobNameOf(media))
  const isCommitted = !job && (await deps.store.head(manifestKey(prefix))) !== undefined
  const seen = { resource: job && seenOf(job, media.id, prefix), isCommitted, marginSeconds: options.marginSeconds }
  const move = repairOf({ ...seen, now: deps.clock.now(), others: () => deps.queue().map(queued) })
  if (move === 'wait') return
  deps.onRepaired?.(TRANSCODE_JOBS.kind, move)
  deps.log.info({ media: media.id, move }, 'repairing a conversion')
  if (move === 'create') await start(deps, media)
  else if (move === 'give-up') await giveUp(deps, media, job)
  else if (move === 'replace' && job) await replace(deps, media, job)
  else if (job) await projectJob(deps, job)
  else await projectCommitted(deps, media, prefix)
}

/** A listed image has a batch. */
const jobNameOf = (media: Conversion) =>
  media.conversionBatch ? batchJobName(media.conversionBatch) : transcodeJobName(media)

/** For an image, with all members of its batch; the sweep finds the resource there when it comes to the others. */
const start = (deps: SweepDeps, media: Conversion) =>
  media.conversionBatch ? startBatch(deps, media.conversionBatch) : startConversion(deps, media)

const keyOf = (deps: SweepDeps, name: string) => ({ namespace: deps.namespace, name })

/** The reflection may lag behind: a resource that it lacks is read from the API server. */
async function findJob(deps: SweepDeps, name: string): Promise<TranscodeJobObject | undefined> {
  const key = keyOf(deps, name)
  return deps.projector.reflection.get(key) ?? (await deps.cluster.get<TranscodeJobObject>(TRANSCODE_JOBS, key))
}

async function projectJob(deps: SweepDeps, job: TranscodeJobObject): Promise<void> {
  const { name } = job.metadata
  if (deps.projector.reflection.get(keyOf(deps, name))) deps.projector.lookAgain(name)
  else for (const fact of factsOf(job)) await projectFact(deps, fact, false)
}

/** The resource is gone, but its manifest exists. If the manifest is unusable, the conversion starts again. */
async function projectCommitted(deps: SweepDeps, media: Conversion, prefix: string): Promise<void> {
  const fact: Fact = { mediaId: media.id, prefix, state: 'succeeded' }
  await projectFact(deps, fact, false).catch(async (error: unknown) => {
    deps.log.warn({ err: error, media: media.id }, 'a manifest without a resource cannot be used')
    await start(deps, media)
  })
}

async function giveUp(deps: SweepDeps, media: Conversion, job: TranscodeJobObject | undefined): Promise<void> {
  const { reason, message } = succeededOf(job?.status) ?? {}
  deps.log.error(
    { media: media.id, transcodeJob: job?.metadata.name, reason, message },
    'a TranscodeJob makes no progress',
  )
  // The row first: if the worker dies in between, what the resource still says changes nothing.
  await timeOut(deps, media)
  const { conversionBatch: batch } = media
  const isShared = batch !== null && (await deps.db.read({}, (tx) => isBatchUnfinished(tx, batch)))
  if (job && !isShared) await remove(deps, job)
}

/** If the deletion takes long, the next sweep finds the name free. */
async function replace(deps: SweepDeps, media: Conversion, job: TranscodeJobObject): Promise<void> {
  deps.log.warn({ media: media.id, transcodeJob: job.metadata.name }, 'replacing a TranscodeJob that has other inputs')
  await remove(deps, job)
  await start(deps, media)
}

const remove = (deps: SweepDeps, job: TranscodeJobObject) => removeResource(deps, TRANSCODE_JOBS, job)

async function timeOut(deps: SweepDeps, media: Conversion): Promise<void> {
  deps.log.error({ media: media.id, generation: media.generation }, 'giving up a conversion: no sign of life')
  await failConversion(deps.db, media, { code: 'TIMEOUT', message: 'The conversion exceeded its time limit' })
}

function seenOf(job: TranscodeJobObject, mediaId: Uuid, prefix: string): ResourceSeen {
  // Applies the defaults as the API server does: a resource without them would have no deadline.
  const spec = TranscodeJobSpec.parse(job.spec)
  const isForeign = !factsOf(job).some((fact) => fact.mediaId === mediaId && fact.prefix === prefix)
  return { creationTimestamp: job.metadata.creationTimestamp, spec, status: job.status, isForeign }
}
