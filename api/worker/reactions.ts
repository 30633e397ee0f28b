import type { EventType, OutboxMessage } from '../../lib/contract/events.ts'
import type { Uuid } from '../../lib/contract/ids.ts'
import { completeConversion, findConversion, findInterrupted } from '../media/conversion.ts'
import type { Admission } from './admission.ts'
import { type ConversionDeps, startConversion } from './start-conversion.ts'
import { type StopDeps, stopConversion } from './stop-conversion.ts'

export type ReactionDeps = ConversionDeps & StopDeps & { admission: Pick<Admission, 'fill'> }

/** What the worker itself does after an event. A reaction may run twice for the same event. */
export function reactions(deps: ReactionDeps): (message: OutboxMessage) => Promise<void> {
  const table: { [T in EventType]?: (message: OutboxMessage) => Promise<void> } = {
    MediaUploaded: ({ aggregateId }) => convert(deps, aggregateId),
    MediaDeleted: ({ aggregateId }) => stop(deps, aggregateId),
  }
  return async (message) => table[message.type]?.(message)
}

/** The conversion of a deleted video has no use, and other conversions can use the node. */
async function stop(deps: ReactionDeps, mediaId: Uuid): Promise<void> {
  const video = await deps.db.read({}, (tx) => findInterrupted(tx, mediaId))
  if (video) await stopConversion(deps, video)
}

/** Completes an image, which every phone can show as it is. Converts a video, or lets it wait for a slot. */
async function convert(deps: ReactionDeps, mediaId: string): Promise<void> {
  const find = () => deps.db.read({}, (tx) => findConversion(tx, mediaId))
  const media = await find()
  if (media?.uploadStatus !== 'processing') return
  if (media.kind === 'image') return void (await completeConversion(deps.db, media, null))
  if (!media.conversionAdmittedAt && (await deps.admission.fill([media.orgId])).has(media.id)) return
  // Without a slot there is nothing left to do for the event: the end of another conversion admits the next video.
  const now = await find()
  if (now?.uploadStatus === 'processing' && now.conversionAdmittedAt) await startConversion(deps, now)
}
