import { HIGHLIGHT_RENDERS } from '../../../../crds/highlight-render.ts'
import { boundsOf } from '../../../../crds/run.ts'
import { HighlightManifest } from '../../../../lib/contract/highlight-manifest.ts'
import { formatId } from '../../../../lib/contract/ids.ts'
import type { HighlightError } from '../../../db/schema/highlights.ts'
import type { RunKind, RunRow } from '../../../worker/runs/kind.ts'
import { announceRender } from './commands.ts'
import { factsOf, type HighlightRenderObject, sourceDeleted } from './facts.ts'
import { findToRender, holdDeletedSource, RENDERED_HIGHLIGHTS } from './queries.ts'
import { highlightRenderFor, highlightRenderName, prefixOf } from './render-spec.ts'

export interface RenderTypes {
  row: RunRow
  object: HighlightRenderObject
  manifest: HighlightManifest
  failure: HighlightError
}

/** Renders of highlights. */
export const RENDERS: RunKind<RenderTypes> = {
  resource: HIGHLIGHT_RENDERS,
  noun: 'render',
  rowNoun: 'highlight',
  table: RENDERED_HIGHLIGHTS,
  nameOf: highlightRenderName,
  prefixOf,
  async wanted(db, { id }, namespace) {
    const highlight = await db.read({}, (tx) => findToRender(tx, id))
    return highlight && { object: highlightRenderFor(highlight, namespace), rows: [highlight] }
  },
  factsOf,
  runFieldsOf: boundsOf,
  manifest: { schema: HighlightManifest, idOf: (id) => formatId('highlight', id), filesOf },
  failures: {
    refused: { code: 'INTERNAL', message: 'The highlight could not be started', mediaId: null },
    unusable: { code: 'INTERNAL', message: 'The highlight could not be used', mediaId: null },
    timedOut: { code: 'TIMEOUT', message: 'The highlight could not be made in time', mediaId: null },
  },
  announce: announceRender,
  async hold(tx, id) {
    const mediaId = await holdDeletedSource(tx, id)
    return mediaId === undefined ? undefined : sourceDeleted(mediaId)
  },
}

function filesOf({ hls, images }: HighlightManifest): string[] {
  return [hls.master, ...(images ? [images.webp.file, images.thumb.file] : [])]
}
