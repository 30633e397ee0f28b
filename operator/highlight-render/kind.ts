import { type HighlightRenderSpec, highlightRenderKind, parseHighlightRender } from '../../crds/highlight-render.ts'
import { GROUP, resourceOf } from '../../crds/kind.ts'
import type { RunSpec } from '../../crds/run.ts'
import { pieceScope } from '../../lib/contract/piece-scope.ts'
import type { StoreGrantInput } from '../../lib/contract/store-proxy.ts'
import type { ProgramKind } from '../program/kind.ts'

/** Fields of the spec that only the operator reads. */
const SCHEDULING: readonly string[] = [
  'priority',
  'suspend',
  'attemptDeadlineSeconds',
  'maxAttempts',
  'ttlSecondsAfterFinished',
] satisfies (keyof RunSpec)[]

/** Renders photos and clips into one highlight. */
export const highlightRender: ProgramKind<HighlightRenderSpec> = {
  resource: resourceOf(highlightRenderKind),
  shortName: 'hr',
  ownerAnnotation: `${GROUP}/highlight-render`,
  component: 'highlight',
  gauge: 'keepsake_highlight_renders',
  entry: 'jobs/highlight/main.js',
  size: (config) => ({
    cpu: config.JOB_CPU,
    cpuBackfill: config.JOB_CPU_BACKFILL,
    memory: config.HIGHLIGHT_MEMORY,
    memoryMax: config.JOB_MEMORY_MAX,
    // Of which a pod gets as much as one or two of the largest uploads need (program/child.ts).
    scratch: config.JOB_SCRATCH,
  }),
  parse: parseHighlightRender,
  // Sources are used one by one, but for those that a crossfade shows together. Any two videos may become neighbors, as broken
  // items are left out. Photos are small.
  holdsTwoUploads: ({ transition, items }) =>
    transition === 'crossfade' && items.filter(({ type }) => type !== 'image').length > 1,
  jobSpec: (spec) => Object.fromEntries(Object.entries(spec).filter(([field]) => !SCHEDULING.includes(field))),
  grant,
  outputs: ({ id, outputPrefix }) => [{ id, outputPrefix }],
  successMessage: () => 'The highlight is rendered',
}

/**
 * Reads the items and the music; writes the highlight and the pieces that later highlights of the same items use again. It may
 * remove pieces of other highlights, to keep their number small, and read those of highlights whose items are all in this one.
 */
function grant({ items, music, outputPrefix }: HighlightRenderSpec): StoreGrantInput {
  const scope = pieceScope(items)
  const sources = [...items.map((i) => i.sourceKey), ...(music ? [music.sourceKey] : [])]
  return {
    read: [...new Set(sources)],
    write: [...new Set([outputPrefix, ...items.map((i) => i.cachePrefix + scope)])],
    remove: [...new Set(items.map((i) => i.cachePrefix))],
  }
}
