import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Admission } from '../../../worker/admission.ts'
import type { Reactions } from '../../../worker/reactions.ts'
import { findRender, findWithdrawn, listRenderingWith } from './queries.ts'
import { type RenderDeps, startRender, stopForDeletedSource, stopRender } from './start.ts'

export type ReactionDeps = RenderDeps & { films: Pick<Admission, 'fill'> }

/** What the worker itself does for highlights after an event. A reaction may run twice for the same event. */
export const highlightReactions = (deps: ReactionDeps): Reactions => ({
  HighlightRequested: ({ aggregateId }) => render(deps, aggregateId),
  HighlightDeleted: ({ aggregateId }) => stopDeleted(deps, aggregateId),
  MediaDeleted: ({ aggregateId }) => failThoseWith(deps, aggregateId),
})

/** Renders a film, or lets it wait for a slot: the end of another film admits the next one. */
async function render(deps: ReactionDeps, id: Uuid): Promise<void> {
  const highlight = await deps.db.read({}, (tx) => findRender(tx, id))
  if (highlight?.status !== 'processing') return
  if (!highlight.renderAdmittedAt && (await deps.films.fill([highlight.orgId])).has(id)) return
  await startRender(deps, id)
}

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
