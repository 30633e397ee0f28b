import { HIGHLIGHT_RENDERS } from '../../../../crds/highlight-render.ts'
import type { Uuid } from '../../../../lib/contract/ids.ts'
import { failpoint } from '../../../../lib/runtime/failpoint.ts'
import { type Cluster, isClusterError } from '../../../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../../../lib/runtime/log.ts'
import type { Database } from '../../../db/db.ts'
import { removeResource } from '../../../worker/remove-resource.ts'
import { failForDeletedSource, failRender } from './commands.ts'
import type { HighlightRenderObject } from './project.ts'
import { findToRender, type RenderKey } from './queries.ts'
import { highlightRenderFor, highlightRenderName } from './render-spec.ts'

export interface RenderDeps {
  db: Database
  cluster: Pick<Cluster, 'create' | 'get' | 'delete'>
  namespace: string
  log: Log
}

/** Creates the HighlightRender of a highlight, unless it exists or the film waits for a slot or is finished. */
export async function startRender(deps: RenderDeps, id: Uuid): Promise<void> {
  const highlight = await deps.db.read({}, (tx) => findToRender(tx, id))
  if (!highlight) return
  const render = highlightRenderFor(highlight, deps.namespace)
  try {
    await deps.cluster.create(HIGHLIGHT_RENDERS, render)
    failpoint('highlights.created')
  } catch (error) {
    if (isClusterError(error, 'AlreadyExists')) return
    if (!isClusterError(error, 'Invalid')) throw error
    // The cluster would refuse the same specification again: a bug or a mismatched CRD, never the user's fault.
    const { name } = render.metadata
    deps.log.error({ err: error, highlightRender: name }, 'the cluster refuses the specification of a HighlightRender')
    await failRender(deps.db, highlight, { code: 'INTERNAL', message: 'The film could not be started', mediaId: null })
  }
}

/** Deletes the HighlightRender of a highlight whose film is not wanted any more. Returns whether there was one. */
export async function stopRender(deps: Omit<RenderDeps, 'db' | 'log'>, key: RenderKey): Promise<boolean> {
  const at = { namespace: deps.namespace, name: highlightRenderName(key) }
  const render = await deps.cluster.get<HighlightRenderObject>(HIGHLIGHT_RENDERS, at)
  if (render) await removeResource(deps, HIGHLIGHT_RENDERS, render)
  return render !== undefined
}

/**
 * Fails a highlight if a media item of it is deleted now, and stops the render. Returns false when all are there, or the
 * render is over. If the worker dies in between, the purge of the film stops the render.
 */
export async function stopForDeletedSource(deps: RenderDeps, key: RenderKey): Promise<boolean> {
  if (!(await failForDeletedSource(deps.db, key))) return false
  failpoint('highlights.failed')
  await stopRender(deps, key)
  return true
}
