import { TRANSCODE_JOBS } from '../../../../crds/transcode-job.ts'
import type { Uuid } from '../../../../lib/contract/ids.ts'
import { failpoint } from '../../../../lib/runtime/failpoint.ts'
import { type Cluster, isClusterError, type KubeObject } from '../../../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../../../lib/runtime/log.ts'
import type { Database } from '../../../db/db.ts'
import { findBatch } from './batch-queries.ts'
import { failConversion } from './commands.ts'
import type { Conversion, ConversionKey } from './queries.ts'
import { batchJobFor, transcodeJobFor } from './transcode-spec.ts'

export interface ConversionDeps {
  db: Database
  cluster: Pick<Cluster, 'create'>
  namespace: string
  log: Log
}

/** Creates the TranscodeJob of a video unless it exists. Call it only for an admitted video. */
export async function startConversion(deps: ConversionDeps, media: Conversion): Promise<void> {
  await create(deps, transcodeJobFor(media, deps.namespace), [media])
}

/** Creates the TranscodeJob of a batch unless it exists or all its members are over. */
export async function startBatch(deps: ConversionDeps, batch: Uuid): Promise<void> {
  const members = await deps.db.read({}, (tx) => findBatch(tx, batch))
  const unfinished = members.filter(({ isUnfinished }) => isUnfinished)
  const [first] = unfinished
  if (!first) return
  const { orgId, priority } = first
  const job = batchJobFor({ id: batch, orgId, priority: priority ?? 'backfill', members }, deps.namespace)
  await create(deps, job, unfinished)
}

/** `converted` fail when the cluster refuses the resource. */
async function create(deps: ConversionDeps, job: KubeObject, converted: readonly ConversionKey[]): Promise<void> {
  try {
    await deps.cluster.create(TRANSCODE_JOBS, job)
    failpoint('reactions.created')
  } catch (error) {
    if (isClusterError(error, 'AlreadyExists')) return
    if (!isClusterError(error, 'Invalid')) throw error
    // The cluster would refuse the same specification again: a bug or a mismatched CRD, never the uploader's fault.
    const { name } = job.metadata
    deps.log.error({ err: error, transcodeJob: name }, 'the cluster refuses the specification of a TranscodeJob')
    for (const media of converted) {
      await failConversion(deps.db, media, { code: 'INTERNAL', message: 'The conversion could not be started' })
    }
  }
}
