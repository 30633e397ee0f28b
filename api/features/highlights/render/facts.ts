import type { HighlightRenderSpec } from '../../../../crds/highlight-render.ts'
import { type RunOutput, type RunStatus, succeededOf } from '../../../../crds/run.ts'
import { conversionErrorOf } from '../../../../lib/contract/conversion-error.ts'
import { parseId, type Uuid } from '../../../../lib/contract/ids.ts'
import type { HighlightError } from '../../../db/schema/highlights.ts'
import { keepable, progressOf, runOf } from '../../../worker/run-facts.ts'
import type { Run, RunningConversion } from '../../media/conversion/plan.ts'

/** The part of a HighlightRender that determines the state of its highlight. */
export interface HighlightRenderSeen {
  spec: Pick<HighlightRenderSpec, 'id' | 'outputPrefix'>
  status?: RunStatus
}

/** What a HighlightRender says about its highlight, in the API's terms. The prefix identifies the generation. */
export type RenderFact = { highlightId: Uuid; prefix: string } & (
  | { state: 'queued' }
  | ({ state: 'running'; playable: boolean } & RunningConversion)
  | { state: 'succeeded'; run?: Run }
  | { state: 'failed'; error: HighlightError; run: Run }
)
type State = RenderFact extends infer F ? (F extends RenderFact ? Omit<F, 'highlightId' | 'prefix'> : never) : never

/** No fact about what is no highlight: any client with permission may create a HighlightRender. */
export function factsOf({ spec, status = {} }: HighlightRenderSeen): RenderFact[] {
  const highlightId = parseId('highlight', spec.id)
  return highlightId ? [{ highlightId, prefix: spec.outputPrefix, ...stateOf(spec.id, status) }] : []
}

/** The checks stand in order of precedence: what the job said of its output counts more than the condition. */
function stateOf(id: string, status: RunStatus): State {
  const run = runOf(status)
  const condition = succeededOf(status)
  const output = status.outputs?.find((o) => o.id === id)
  if (output?.state === 'Failed') return { state: 'failed', error: errorOf(output), run }
  // The manifest is the commit, even when the status does not list the output.
  if (output?.state === 'Succeeded' || condition?.status === 'True') return { state: 'succeeded', run }
  if (condition?.status === 'False') return { state: 'failed', error: errorOf(condition), run }
  if (status.phase !== 'Running') return { state: 'queued' }
  const playable = status.progress?.playable?.includes(id) ?? false
  return { state: 'running', ...run, progress: progressOf(status.progress), playable }
}

/** Names the item that cannot be used; for a fault of the platform, only that no media item is the cause. */
function errorOf({ reason, message, item }: Pick<RunOutput, 'reason' | 'message' | 'item'>): HighlightError {
  const mediaId = parseId('media', item ?? '') ?? null
  if (reason === 'InputMissing' && mediaId) return sourceDeleted(mediaId)
  if (mediaId)
    return { code: 'ITEM_FAILED', message: keepable(message ?? '') || 'A media item cannot be used', mediaId }
  const code = conversionErrorOf(reason) === 'TIMEOUT' ? 'TIMEOUT' : 'INTERNAL'
  return { code, message: WORDS[code], mediaId: null }
}

const WORDS = {
  TIMEOUT: 'The film could not be made in time',
  INTERNAL: 'The film could not be made, for a reason unrelated to the media items',
}

export const sourceDeleted = (mediaId: Uuid): HighlightError => ({
  code: 'SOURCE_DELETED',
  message: 'A media item was deleted before the film was finished',
  mediaId,
})
