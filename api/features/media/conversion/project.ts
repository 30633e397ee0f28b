import { TRANSCODE_JOBS } from '../../../../crds/transcode-job.ts'
import { manifestKey, masterKey, outputPrefix } from '../../../../lib/contract/object-keys.ts'
import { failpoint } from '../../../../lib/runtime/failpoint.ts'
import type { KubeObject } from '../../../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../../../lib/runtime/log.ts'
import type { ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../../../db/db.ts'
import { type FollowDeps, type Follower, type FollowOptions, follow } from '../../../worker/follow.ts'
import { ManifestError } from '../../../worker/read-manifest.ts'
import { completeConversion, failConversion, leaveBatch, recordPlayable, recordProgress } from './commands.ts'
import { type Fact, factsOf, type TranscodeJobSeen } from './facts.ts'
import { type Conversion, findConversion } from './queries.ts'
import { readMediaManifest } from './read-media-manifest.ts'
import { batchJobName } from './transcode-spec.ts'

export type TranscodeJobObject = KubeObject & TranscodeJobSeen

export type ConversionFollower = Follower<TranscodeJobObject>

/** Records what the cluster says about conversions: state and generation of the media item guard every move. */
export const followConversions = (deps: FollowDeps & FactDeps, options?: FollowOptions): ConversionFollower =>
  follow<TranscodeJobObject, Fact>(
    deps,
    { resource: TRANSCODE_JOBS, factsOf, record: (fact, isLastAttempt) => projectFact(deps, fact, isLastAttempt) },
    options,
  )

interface FactDeps {
  db: Database
  store: ObjectStore
  log: Log
}

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
    const manifest = await readMediaManifest(deps.store, media.id, prefix)
    failpoint('projector.read')
    return await completeConversion(deps.db, media, { prefix, manifest }, run)
  } catch (error) {
    if (!(error instanceof ManifestError) || !isLastAttempt) throw error
    deps.log.error({ err: error, media: media.id }, 'a conversion that succeeded left no usable manifest')
    const message = 'The result of the conversion could not be used'
    return failConversion(deps.db, media, { code: 'INTERNAL', message })
  }
}
