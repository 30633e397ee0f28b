import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Reactions } from '../../worker/reactions.ts'
import { findRender, findWithdrawn, listRenderingWith } from './queries.ts'
import { type RenderDeps, startRender, stopForDeletedSource, stopRender } from './start.ts'

/** What the worker itself does for highlights after an event. A reaction may run twice for the same event. */
export const highlightReactions = (deps: RenderDeps): Reactions => ({
  HighlightRequested: ({ aggregateId }) => startRender(deps, aggregateId),
  HighlightDeleted: ({ aggregateId }) => stopDeleted(deps, aggregateId),
  MediaDeleted: ({ aggregateId }) => failThoseWith(deps, aggregateId),
})

/** So that its node works for others now. The purge stops what starts meanwhile. */
async function stopDeleted(deps: RenderDeps, id: Uuid): Promise<void> {
  const highlight = await deps.db.read({}, (tx) => findWithdrawn(tx, id))
  if (highlight) await stopRender(deps, highlight)
}

/** A film of a deleted media item is not finished. */
async function failThoseWith(deps: RenderDeps, mediaId: Uuid): Promise<void> {
  for (const id of await deps.db.read({}, (tx) => listRenderingWith(tx, mediaId))) {
    const highlight = await deps.db.read({}, (tx) => findRender(tx, id))
    if (highlight) await stopForDeletedSource(deps, highlight)
  }
}
