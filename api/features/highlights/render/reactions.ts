import { HIGHLIGHT_RENDERS } from '../../../../crds/highlight-render.ts'
import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Reactions } from '../../../worker/reactions.ts'
import type { Admission } from '../../../worker/runs/admission.ts'
import type { RunDeps } from '../../../worker/runs/kind.ts'
import { findRun } from '../../../worker/runs/queries.ts'
import { startAdmitted } from '../../../worker/runs/start.ts'
import { stopIfHeld, stopResource } from '../../../worker/runs/stop.ts'
import { RENDERS } from './kind.ts'
import { findWithdrawn, listRenderingWith } from './queries.ts'
import { highlightRenderName } from './render-spec.ts'

export type ReactionDeps = Omit<RunDeps, 'store'> & { admission: Pick<Admission, 'fill'> }

/** What the worker itself does for highlights after an event. A reaction may run twice for the same event. */
export const highlightReactions = (deps: ReactionDeps): Reactions => ({
  HighlightRequested: ({ aggregateId }) => render(deps, aggregateId),
  HighlightDeleted: ({ aggregateId }) => stopDeleted(deps, aggregateId),
  MediaDeleted: ({ aggregateId }) => failThoseWith(deps, aggregateId),
})

/** Renders a highlight, or lets it wait for a slot: the end of another render admits the next one. */
async function render(deps: ReactionDeps, id: Uuid): Promise<void> {
  const highlight = await deps.db.read({}, (tx) => findRun(tx, RENDERS, id))
  if (highlight?.status !== 'processing') return
  if (!highlight.admittedAt && (await deps.admission.fill([highlight.orgId])).has(id)) return
  await startAdmitted(deps, RENDERS, id)
}

/** Frees the node for other renders now. The purge stops a render that starts meanwhile. */
async function stopDeleted(deps: ReactionDeps, id: Uuid): Promise<void> {
  const highlight = await deps.db.read({}, (tx) => findWithdrawn(tx, id))
  if (highlight) await stopResource(deps, HIGHLIGHT_RENDERS, highlightRenderName(highlight))
}

/** A highlight of a deleted media item is not finished. */
async function failThoseWith(deps: ReactionDeps, mediaId: Uuid): Promise<void> {
  for (const id of await deps.db.read({}, (tx) => listRenderingWith(tx, mediaId))) {
    const highlight = await deps.db.read({}, (tx) => findRun(tx, RENDERS, id))
    if (highlight) await stopIfHeld(deps, RENDERS, highlight)
  }
}
