import type { Feature } from '../../feature.ts'
import { workerPart } from '../../worker/feature-worker.ts'
import { highlightsPart } from './erasure.ts'
import { ownHighlightData } from './own-data.ts'
import { unusedPieces } from './pieces/pieces.ts'
import { highlightActions } from './policy.ts'
import { findHighlight } from './queries.ts'
import { highlightRoutes } from './routes.ts'
import { HighlightSettings, highlightWorker } from './worker.ts'

export const highlights: Feature = {
  ...highlightsPart,
  tags: { Highlights: 'Photos and clips that a user has chosen, rendered into one stream, and the music for them.' },
  routes: highlightRoutes,
  actions: Object.values(highlightActions),
  export: ownHighlightData,
  rows: {
    highlight: {
      id: 'highlight',
      find: (tx, { orgId, id, userId }) => findHighlight(tx, { orgId, id, callerId: userId }),
    },
  },
  retention: [unusedPieces],
  worker: workerPart(HighlightSettings, highlightWorker),
}
