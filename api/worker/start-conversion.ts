import { TRANSCODE_JOBS } from '../../crds/transcode-job.ts'
import { type Cluster, isClusterError } from '../../lib/runtime/cluster.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { Database } from '../db/db.ts'
import { type Conversion, failConversion } from '../media/conversion.ts'
import { transcodeJobFor } from './transcode-spec.ts'

export interface ConversionDeps {
  db: Database
  cluster: Pick<Cluster, 'create'>
  namespace: string
  log: Log
}

/** Creates the TranscodeJob of a video unless it exists. Call it only for an admitted video. */
export async function startConversion(deps: ConversionDeps, media: Conversion): Promise<void> {
  try {
    await deps.cluster.create(TRANSCODE_JOBS, transcodeJobFor(media, deps.namespace))
    failpoint('reactions.created')
  } catch (error) {
    if (isClusterError(error, 'AlreadyExists')) return
    if (!isClusterError(error, 'Invalid')) throw error
    // The cluster would refuse the same specification again: a bug or a mismatched CRD, never the uploader's fault.
    deps.log.error({ err: error, media: media.id }, 'the cluster refuses the specification of a TranscodeJob')
    await failConversion(deps.db, media, { code: 'INTERNAL', message: 'The conversion could not be started' })
  }
}
