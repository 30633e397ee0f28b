import { boundsOf } from '../../../../crds/run.ts'
import { TRANSCODE_JOBS } from '../../../../crds/transcode-job.ts'
import { formatId, type Uuid } from '../../../../lib/contract/ids.ts'
import { Manifest } from '../../../../lib/contract/manifest.ts'
import { outputPrefix } from '../../../../lib/contract/object-keys.ts'
import type { Database } from '../../../db/db.ts'
import type { RunKind, WantedResource } from '../../../worker/runs/kind.ts'
import { findBatch, isBatchUnfinished } from './batch-queries.ts'
import { announceConversion } from './commands.ts'
import { factsOf } from './facts.ts'
import { type ParallelismLimits, parallelismOf } from './parallelism.ts'
import { CONVERTED_MEDIA, type ConversionTypes } from './queries.ts'
import { regroup } from './regroup.ts'
import { batchJobFor, batchJobName, transcodeJobFor, transcodeJobName } from './transcode-spec.ts'

/** Conversions of media items. A video has a TranscodeJob of its own, an image shares that of its batch. */
export const conversionsWith = (limits: ParallelismLimits): RunKind<ConversionTypes> => ({
  resource: TRANSCODE_JOBS,
  noun: 'conversion',
  rowNoun: 'media',
  table: CONVERTED_MEDIA,
  nameOf: (media) => (media.conversionBatch ? batchJobName(media.conversionBatch) : transcodeJobName(media)),
  prefixOf: ({ orgId, id, generation }) => outputPrefix(orgId, id, generation),
  async wanted(db, media, namespace) {
    if (media.conversionBatch) return wantedBatch(db, media.conversionBatch, namespace)
    const parallelism = parallelismOf(media.fileSizeBytes, limits)
    return { object: transcodeJobFor(media, namespace, parallelism), rows: [media] }
  },
  factsOf,
  runFieldsOf: boundsOf,
  manifest: { schema: Manifest, idOf: (id) => formatId('media', id), filesOf },
  failures: {
    refused: { code: 'INTERNAL', message: 'The conversion could not be started' },
    unusable: { code: 'INTERNAL', message: 'The result of the conversion could not be used' },
    timedOut: { code: 'TIMEOUT', message: 'The conversion exceeded its time limit' },
  },
  announce: announceConversion,
  regroup,
  isShared: async (db, { conversionBatch: batch }) =>
    batch !== null && (await db.read({}, (tx) => isBatchUnfinished(tx, batch))),
})

/** With one pod for each video: what does not create TranscodeJobs of videos need not know more. */
export const CONVERSIONS = conversionsWith({ maxParallelism: 1, maxPerOrganization: 1 })

/** For all members of a batch; undefined when all are over. */
export async function wantedBatch(db: Database, batch: Uuid, namespace: string): Promise<WantedResource | undefined> {
  const members = await db.read({}, (tx) => findBatch(tx, batch))
  const rows = members.filter(({ isUnfinished }) => isUnfinished)
  const [first] = rows
  if (!first) return
  const { orgId, priority } = first
  return { object: batchJobFor({ id: batch, orgId, priority: priority ?? 'backfill', members }, namespace), rows }
}

function filesOf(manifest: Manifest): string[] {
  return [
    ...(manifest.type === 'video' ? [manifest.hls.master] : []),
    ...(manifest.type === 'image' && manifest.images.jpeg ? [manifest.images.jpeg.file] : []),
    ...(manifest.images ? [manifest.images.webp.file, manifest.images.thumb.file] : []),
  ]
}
