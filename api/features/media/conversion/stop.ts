import { isFinished } from '../../../../crds/run.ts'
import { TRANSCODE_JOBS } from '../../../../crds/transcode-job.ts'
import { parseId, type Uuid } from '../../../../lib/contract/ids.ts'
import type { Cluster } from '../../../../lib/runtime/kube/cluster.ts'
import type { Database } from '../../../db/db.ts'
import { removeResource } from '../../../worker/remove-resource.ts'
import type { RunKey } from '../../../worker/runs/kind.ts'
import { findRun } from '../../../worker/runs/queries.ts'
import type { TranscodeJobObject } from './facts.ts'
import { CONVERSIONS } from './kind.ts'
import { transcodeJobName } from './transcode-spec.ts'

export interface StopDeps {
  db: Database
  cluster: Pick<Cluster, 'get' | 'list' | 'delete'>
  namespace: string
}

/** The media items of a TranscodeJob; undefined when it also has inputs that are none. */
function mediaOf({ spec }: TranscodeJobObject): Uuid[] | undefined {
  const ids = spec.inputs.map(({ id }) => parseId('media', id))
  return ids.every((id) => id !== undefined) ? ids : undefined
}

/** All TranscodeJobs that may still write. */
export async function listUnfinished({ cluster, namespace }: StopDeps): Promise<TranscodeJobObject[]> {
  const jobs = await cluster.list<TranscodeJobObject>(TRANSCODE_JOBS, { namespace })
  return jobs.filter((job) => !isFinished(job.status))
}

/**
 * Deletes those of the resources whose media items are all deleted, since their results have no use. A resource that
 * also converts another media item goes on. Returns whether one of `jobs` works on one of `ids`.
 */
export async function stopConversions(
  deps: StopDeps,
  jobs: readonly TranscodeJobObject[],
  ids: readonly Uuid[],
): Promise<boolean> {
  const working = jobs.filter((job) => job.spec.inputs.some(({ id }) => ids.includes(parseId('media', id) as Uuid)))
  // If a media item is restored meanwhile, the sweep finds its resource missing and creates it again.
  for (const job of working) if (await isUnwanted(deps, job)) await removeResource(deps, TRANSCODE_JOBS, job)
  return working.length > 0
}

/** Deletes the resource of a deleted video, so that its node works for others. */
export async function stopConversion(deps: StopDeps, video: RunKey): Promise<void> {
  const key = { namespace: deps.namespace, name: transcodeJobName(video) }
  const job = await deps.cluster.get<TranscodeJobObject>(TRANSCODE_JOBS, key)
  if (job && !isFinished(job.status)) await stopConversions(deps, [job], [video.id])
}

/** Asked right before the deletion: a media item may have been restored since its event. */
async function isUnwanted({ db }: StopDeps, job: TranscodeJobObject): Promise<boolean> {
  const ids = mediaOf(job)
  if (!ids) return false
  const wanted = await db.read({}, (tx) => Promise.all(ids.map((id) => findRun(tx, CONVERSIONS, id))))
  return wanted.every((media) => media === undefined)
}
