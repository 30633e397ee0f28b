import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Reactions } from '../../../worker/reactions.ts'
import type { Admission } from '../../../worker/runs/admission.ts'
import type { RunKind } from '../../../worker/runs/kind.ts'
import { findRun } from '../../../worker/runs/queries.ts'
import { type StartDeps, startAdmitted } from '../../../worker/runs/start.ts'
import type { Batches } from './batches.ts'
import { CONVERSIONS } from './kind.ts'
import { type Conversion, type ConversionTypes, findInterrupted } from './queries.ts'
import { type StopDeps, stopConversion } from './stop.ts'

export type ReactionDeps = StartDeps &
  StopDeps & {
    admission: Pick<Admission, 'fill'>
    batches: Pick<Batches, 'fill' | 'start'>
    /** Makes the TranscodeJobs of videos. */
    conversions: RunKind<ConversionTypes>
  }

/** What the worker itself does for conversions after an event. A reaction may run twice for the same event. */
export const conversionReactions = (deps: ReactionDeps): Reactions => ({
  MediaUploaded: ({ aggregateId }) => convert(deps, aggregateId),
  MediaDeleted: ({ aggregateId }) => stop(deps, aggregateId),
})

/** The conversion of a deleted video has no use, and other conversions can use the node. */
async function stop(deps: ReactionDeps, mediaId: Uuid): Promise<void> {
  const video = await deps.db.read({}, (tx) => findInterrupted(tx, mediaId))
  if (video) await stopConversion(deps, video)
}

async function convert(deps: ReactionDeps, mediaId: Uuid): Promise<void> {
  const media = await findProcessing(deps, mediaId)
  if (media?.kind === 'video') await convertVideo(deps, media)
  else if (media?.kind === 'image') await convertImage(deps, media)
}

/** Converts a video, or lets it wait for a slot. */
async function convertVideo(deps: ReactionDeps, media: Conversion): Promise<void> {
  if (!media.admittedAt && (await deps.admission.fill([media.orgId])).has(media.id)) return
  // Without a slot there is nothing left to do for the event: the end of another conversion admits the next video.
  await startAdmitted(deps, deps.conversions, media.id)
}

/** Converts an image with others, or lets it wait for a batch. */
async function convertImage(deps: ReactionDeps, media: Conversion): Promise<void> {
  if (!media.conversionBatch) await deps.batches.fill([media.orgId])
  const now = media.conversionBatch ? media : await findProcessing(deps, media.id)
  // Also for a batch that another event formed: the worker that formed it may have died before it started it.
  if (now?.conversionBatch) await deps.batches.start(now.conversionBatch)
}

async function findProcessing({ db }: ReactionDeps, mediaId: Uuid): Promise<Conversion | undefined> {
  const media = await db.read({}, (tx) => findRun(tx, CONVERSIONS, mediaId))
  return media?.status === 'processing' ? media : undefined
}
