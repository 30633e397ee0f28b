import type { RunKind } from '../../../worker/runs/kind.ts'
import { leaveBatch } from './commands.ts'
import type { ConversionTypes } from './queries.ts'
import { batchJobName } from './transcode-spec.ts'

type Regroup = NonNullable<RunKind<ConversionTypes>['regroup']>
type Given = Parameters<Regroup>

/**
 * A batch failed as a whole: one image may have ended the pod of 63 others. Those that were not converted before wait for
 * a smaller batch.
 */
export const regroup: Regroup = (deps, media, fact) => (media.kind === 'image' ? leave(deps, media, fact) : undefined)

async function leave({ db, log }: Given[0], media: Given[1], fact: Given[2]): Promise<boolean> {
  const batch = media.conversionBatch
  // Batches of one generation share its prefix: only this says that the fact is about the present one.
  if (!batch || batchJobName(batch) !== fact.sharedBy) return false
  log.warn({ media: media.id, transcodeJob: fact.sharedBy, reason: fact.error.code }, 'regrouping an image')
  await leaveBatch(db, media, batch)
  return false
}
