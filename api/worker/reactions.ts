import { TRANSCODE_JOBS } from '../../crds/transcode-job.ts'
import type { EventType, OutboxMessage } from '../../lib/contract/events.ts'
import { type Cluster, isClusterError } from '../../lib/runtime/cluster.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { Database } from '../db/db.ts'
import { type Conversion, completeConversion, failConversion, findConversion } from '../media/conversion.ts'
import { transcodeJobFor } from './transcode-spec.ts'

export interface ConversionDeps {
  db: Database
  cluster: Pick<Cluster, 'create'>
  namespace: string
  log: Log
}

/** What follows an event inside our own system. Each may run twice for the same event. */
export function reactions(deps: ConversionDeps): (message: OutboxMessage) => Promise<void> {
  const table: { [T in EventType]?: (message: OutboxMessage) => Promise<void> } = {
    MediaUploaded: ({ aggregateId }) => convert(deps, aggregateId),
  }
  return async (message) => table[message.type]?.(message)
}

async function convert(deps: ConversionDeps, mediaId: string): Promise<void> {
  const media = await deps.db.read({}, (tx) => findConversion(tx, mediaId))
  if (media?.uploadStatus === 'processing') await startConversion(deps, media)
}

/**
 * Sees to it that somebody works on a media: after this there is a TranscodeJob for a video, and an image, which every
 * phone can show as it is, is completed.
 */
export async function startConversion(deps: ConversionDeps, media: Conversion): Promise<void> {
  if (media.kind === 'image') {
    await completeConversion(deps.db, media, null)
    return
  }
  try {
    await deps.cluster.create(TRANSCODE_JOBS, transcodeJobFor(media, deps.namespace))
    failpoint('reactions.created')
  } catch (error) {
    if (isClusterError(error, 'AlreadyExists')) return
    if (!isClusterError(error, 'Invalid')) throw error
    // The same specification would be refused again: a bug or a CRD that does not fit, but never the uploader's fault.
    deps.log.error({ err: error, media: media.id }, 'the cluster refuses the specification of a TranscodeJob')
    await failConversion(deps.db, media, { code: 'INTERNAL', message: 'The conversion could not be started' })
  }
}
