import type { HighlightRenderSpec } from '../../../../crds/highlight-render.ts'
import type { RunStatus } from '../../../../crds/run.ts'
import { conversionErrorOf } from '../../../../lib/contract/conversion-error.ts'
import { parseId, type Uuid } from '../../../../lib/contract/ids.ts'
import type { KubeObject } from '../../../../lib/runtime/kube/cluster.ts'
import type { HighlightError } from '../../../db/schema/highlights.ts'
import { type Failed, keepable, type RunFact, runStateOf } from '../../../worker/runs/facts.ts'

/** The part of a HighlightRender that determines the state of its highlight. */
export interface HighlightRenderSeen {
  spec: Pick<HighlightRenderSpec, 'id' | 'outputPrefix'>
  status?: RunStatus
}

export type HighlightRenderObject = KubeObject & HighlightRenderSeen

/** Returns no fact for a HighlightRender that names no highlight: any client with permission may create one. */
export function factsOf({ spec, status = {} }: HighlightRenderSeen): RunFact<HighlightError>[] {
  const id = parseId('highlight', spec.id)
  return id ? [{ id, prefix: spec.outputPrefix, ...runStateOf({ id: spec.id, status, sharedBy: null, errorOf }) }] : []
}

/** Names the item that cannot be used; for a fault of the platform, only that no media item is the cause. */
function errorOf({ reason, message, item }: Failed): HighlightError {
  const mediaId = parseId('media', item ?? '') ?? null
  if (reason === 'InputMissing' && mediaId) return sourceDeleted(mediaId)
  if (mediaId)
    return { code: 'ITEM_FAILED', message: keepable(message ?? '') || 'A media item cannot be used', mediaId }
  const code = conversionErrorOf(reason) === 'TIMEOUT' ? 'TIMEOUT' : 'INTERNAL'
  return { code, message: WORDS[code], mediaId: null }
}

const WORDS = {
  TIMEOUT: 'The highlight could not be made in time',
  INTERNAL: 'The highlight could not be made, for a reason unrelated to the media items',
}

export const sourceDeleted = (mediaId: Uuid): HighlightError => ({
  code: 'SOURCE_DELETED',
  message: 'A media item was deleted before the highlight was finished',
  mediaId,
})
