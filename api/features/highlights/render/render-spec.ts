import { HIGHLIGHT_RENDERS, type HighlightRenderSpec } from '../../../../crds/highlight-render.ts'
import { API_VERSION } from '../../../../crds/kind.ts'
import { formatId, suffixOf, type Uuid } from '../../../../lib/contract/ids.ts'
import {
  type OriginalTier,
  originalKeyIn,
  piecesPrefix,
  renderPrefix,
  trackKey,
} from '../../../../lib/contract/object-keys.ts'
import type { KubeObject } from '../../../../lib/runtime/kube/cluster.ts'
import type { HighlightRow } from '../../../db/schema/highlights.ts'
import { highlightText, type Item } from '../plan.ts'

export interface HighlightToRender
  extends Pick<
    HighlightRow,
    | 'id'
    | 'orgId'
    | 'generation'
    | 'title'
    | 'showTitle'
    | 'transition'
    | 'orientation'
    | 'fill'
    | 'kenBurns'
    | 'skipBroken'
    | 'musicTrackId'
  > {
  /** In playback order. */
  items: readonly (Omit<Item, 'uploaderId' | 'captionBy' | 'skipped'> & { originalTier: OriginalTier })[]
}

type HighlightRenderToCreate = KubeObject & {
  spec: Pick<HighlightRenderSpec, 'id' | 'outputPrefix'> & Partial<Omit<HighlightRenderSpec, 'items'>>
}

/** One name per generation of a highlight: a second creation fails with AlreadyExists. */
export const highlightRenderName = ({ id, generation }: Pick<HighlightToRender, 'id' | 'generation'>) =>
  `hr-${suffixOf(id)}-${generation}`

export const prefixOf = ({ orgId, id, generation }: Pick<HighlightToRender, 'orgId' | 'id' | 'generation'>) =>
  renderPrefix(orgId, id, generation)

/** The resource that renders a highlight. The CRD's defaults fill the omitted fields. */
export function highlightRenderFor(highlight: HighlightToRender, namespace: string): HighlightRenderToCreate {
  const { id, orgId, musicTrackId } = highlight
  const { title, showTitle, transition, orientation, fill, kenBurns, skipBroken } = highlight
  return {
    apiVersion: API_VERSION,
    kind: HIGHLIGHT_RENDERS.kind,
    metadata: {
      name: highlightRenderName(highlight),
      namespace,
      annotations: { 'media.keepsake.dev/highlight': formatId('highlight', id) },
      labels: {
        'app.kubernetes.io/managed-by': 'keepsake-worker',
        'media.keepsake.dev/org': formatId('organization', orgId),
      },
    },
    spec: {
      id: formatId('highlight', id),
      title: highlightText(title),
      outputPrefix: prefixOf(highlight),
      showTitle,
      transition,
      orientation,
      fill,
      kenBurns,
      skipBroken,
      items: highlight.items.map((item) => toItem(orgId, item)),
      ...(musicTrackId && { music: { id: formatId('track', musicTrackId), sourceKey: trackKey(musicTrackId) } }),
    },
  } as HighlightRenderToCreate
}

const toItem = (
  orgId: Uuid,
  { mediaId, sourceId, originalTier, type, seconds, caption }: HighlightToRender['items'][number],
) => ({
  id: formatId('media', mediaId),
  type,
  sourceKey: originalKeyIn(originalTier, orgId, sourceId),
  cachePrefix: piecesPrefix(orgId, sourceId),
  seconds,
  caption,
})
