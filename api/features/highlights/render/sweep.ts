import { HIGHLIGHT_RENDERS, HighlightRenderSpec } from '../../../../crds/highlight-render.ts'
import { succeededOf } from '../../../../crds/run.ts'
import type { Uuid } from '../../../../lib/contract/ids.ts'
import { manifestKey } from '../../../../lib/contract/object-keys.ts'
import type { Clock } from '../../../../lib/runtime/clock.ts'
import type { Log } from '../../../../lib/runtime/log.ts'
import type { ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'
import type { Admission } from '../../../worker/admission.ts'
import type { ClusterSeen, RepairOptions } from '../../../worker/feature-worker.ts'
import { removeResource } from '../../../worker/remove-resource.ts'
import { queued, type Repair, type ResourceSeen, repairOf } from '../../media/conversion/sweep-plan.ts'
import { failRender } from './commands.ts'
import { factsOf, type RenderFact } from './facts.ts'
import { type HighlightRenderObject, projectRender, type RenderFollower } from './project.ts'
import { listRendering, type Render } from './queries.ts'
import { highlightRenderName, prefixOf } from './render-spec.ts'
import { type RenderDeps, startRender, stopForDeletedSource } from './start.ts'

export interface RenderSweepDeps extends RenderDeps {
  store: ObjectStore
  renders: Pick<RenderFollower, 'reflection' | 'lookAgain'>
  queue: ClusterSeen['queue']
  films: Pick<Admission, 'fill'>
  log: Log
  clock: Clock
  onRepaired?(kind: string, repair: Repair): void
}

/** Compares Postgres with the cluster and repairs what an interruption left. Any number of workers may do so. */
export async function sweepRenders(deps: RenderSweepDeps, options: RepairOptions, signal?: AbortSignal): Promise<void> {
  const limit = options.batch ?? 200
  let after: Uuid | undefined
  for (;;) {
    const page = await deps.db.read({}, (tx) => listRendering(tx, { ...options, after, limit }))
    for (const highlight of page) {
      if (signal?.aborted) return
      await repairOrReport(deps, options, highlight)
    }
    after = page.at(-1)?.id
    if (page.length < limit) break
  }
  // The backstop for slots whose notification no worker received.
  if (!signal?.aborted) await deps.films.fill()
}

/** A highlight that cannot be repaired now does not hold up the others. */
async function repairOrReport(deps: RenderSweepDeps, options: RepairOptions, highlight: Render): Promise<void> {
  try {
    if (!(await stopForDeletedSource(deps, highlight))) await repair(deps, options, highlight)
  } catch (error) {
    const idleSeconds = (deps.clock.now().getTime() - highlight.updatedAt.getTime()) / 1000
    deps.log.warn({ err: error, highlight: highlight.id, idleSeconds }, 'could not repair a render')
    if (idleSeconds < options.giveUpSeconds) return
    await timeOut(deps, highlight).catch((e: unknown) =>
      deps.log.error({ err: e, highlight: highlight.id }, 'could not give up a render'),
    )
  }
}

async function repair(deps: RenderSweepDeps, options: RepairOptions, highlight: Render): Promise<void> {
  const render = await findResource(deps, highlight)
  const isCommitted = !render && (await deps.store.head(manifestKey(prefixOf(highlight)))) !== undefined
  const seen = { resource: render && seenOf(render, highlight), isCommitted, marginSeconds: options.marginSeconds }
  const move = repairOf({ ...seen, now: deps.clock.now(), others: () => deps.queue().map(queued) })
  if (move === 'wait') return
  deps.onRepaired?.(HIGHLIGHT_RENDERS.kind, move)
  deps.log.info({ highlight: highlight.id, move }, 'repairing a render')
  if (move === 'create') await startRender(deps, highlight.id)
  else if (move === 'project') await project(deps, highlight, render)
  else if (move === 'give-up') await giveUp(deps, highlight, render)
  else if (render) {
    // If the deletion takes long, the next sweep finds the name free.
    await removeResource(deps, HIGHLIGHT_RENDERS, render)
    await startRender(deps, highlight.id)
  }
}

/** The reflection may lag behind: a resource that it lacks is read from the API server. */
async function findResource(deps: RenderSweepDeps, highlight: Render): Promise<HighlightRenderObject | undefined> {
  const key = { namespace: deps.namespace, name: highlightRenderName(highlight) }
  return deps.renders.reflection.get(key) ?? (await deps.cluster.get<HighlightRenderObject>(HIGHLIGHT_RENDERS, key))
}

async function project(
  deps: RenderSweepDeps,
  highlight: Render,
  render: HighlightRenderObject | undefined,
): Promise<void> {
  if (!render) return projectCommitted(deps, highlight)
  const { name } = render.metadata
  if (deps.renders.reflection.get({ namespace: deps.namespace, name })) deps.renders.lookAgain(name)
  else for (const fact of factsOf(render)) await projectRender(deps, fact, false)
}

/** The resource is gone, but its manifest exists. If the manifest is unusable, the render starts again. */
async function projectCommitted(deps: RenderSweepDeps, highlight: Render): Promise<void> {
  const fact: RenderFact = { highlightId: highlight.id, prefix: prefixOf(highlight), state: 'succeeded' }
  await projectRender(deps, fact, false).catch(async (error: unknown) => {
    deps.log.warn({ err: error, highlight: highlight.id }, 'a manifest without a resource cannot be used')
    await startRender(deps, highlight.id)
  })
}

async function giveUp(
  deps: RenderSweepDeps,
  highlight: Render,
  render: HighlightRenderObject | undefined,
): Promise<void> {
  const { reason, message } = succeededOf(render?.status) ?? {}
  const { name } = render?.metadata ?? {}
  deps.log.error({ highlightRender: name, reason, message }, 'a HighlightRender makes no progress')
  // The row first: if the worker dies in between, the purge of the film stops the render.
  await timeOut(deps, highlight)
  if (render) await removeResource(deps, HIGHLIGHT_RENDERS, render)
}

async function timeOut(deps: RenderSweepDeps, highlight: Render): Promise<void> {
  deps.log.error({ highlight: highlight.id, generation: highlight.generation }, 'giving up a render: no sign of life')
  await failRender(deps.db, highlight, {
    code: 'TIMEOUT',
    message: 'The film could not be made in time',
    mediaId: null,
  })
}

function seenOf(render: HighlightRenderObject, highlight: Render): ResourceSeen {
  // Applies the defaults as the API server does: a resource without them would have no deadline.
  const spec = HighlightRenderSpec.parse(render.spec)
  const isForeign = !factsOf(render).some(
    (fact) => fact.highlightId === highlight.id && fact.prefix === prefixOf(highlight),
  )
  return { creationTimestamp: render.metadata.creationTimestamp, spec, status: render.status, isForeign }
}
