import { HIGHLIGHT_RENDERS } from '../../../../crds/highlight-render.ts'
import { HighlightManifest } from '../../../../lib/contract/highlight-manifest.ts'
import { formatId, type Uuid } from '../../../../lib/contract/ids.ts'
import { masterKey } from '../../../../lib/contract/object-keys.ts'
import { failpoint } from '../../../../lib/runtime/failpoint.ts'
import type { KubeObject } from '../../../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../../../lib/runtime/log.ts'
import type { ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../../../db/db.ts'
import { type FollowDeps, type Follower, type FollowOptions, follow } from '../../../worker/follow.ts'
import { ManifestError, readManifest } from '../../../worker/read-manifest.ts'
import { completeRender, failRender, recordFilmPlayable, recordRenderProgress } from './commands.ts'
import { factsOf, type HighlightRenderSeen, type RenderFact } from './facts.ts'
import { findRender, type Render } from './queries.ts'
import { prefixOf } from './render-spec.ts'

export type HighlightRenderObject = KubeObject & HighlightRenderSeen

export type RenderFollower = Follower<HighlightRenderObject>

interface FactDeps {
  db: Database
  store: ObjectStore
  log: Log
}

/** Records what the cluster says about renders: status and generation of the highlight guard every move. */
export const followRenders = (deps: FollowDeps & FactDeps, options?: FollowOptions): RenderFollower =>
  follow<HighlightRenderObject, RenderFact>(
    deps,
    { resource: HIGHLIGHT_RENDERS, factsOf, record: (fact, isLastAttempt) => projectRender(deps, fact, isLastAttempt) },
    options,
  )

/**
 * Applies a fact to its highlight. Returns false when there is no new state: the highlight is deleted or finished, or the
 * fact is known or about an earlier generation. When `isLastAttempt`, an unusable manifest fails the highlight.
 */
export async function projectRender(deps: FactDeps, fact: RenderFact, isLastAttempt: boolean): Promise<boolean> {
  if (fact.state === 'queued') return false
  const highlight = await deps.db.read({}, (tx) => findRender(tx, fact.highlightId))
  if (highlight?.status !== 'processing' || fact.prefix !== prefixOf(highlight)) return false
  const isNews = await moveTo(deps, highlight, fact, isLastAttempt)
  if (isNews) failpoint('highlights.committed')
  return isNews
}

async function moveTo(
  deps: FactDeps,
  highlight: Render,
  fact: Exclude<RenderFact, { state: 'queued' }>,
  isLastAttempt: boolean,
): Promise<boolean> {
  switch (fact.state) {
    case 'running': {
      const isPlayable = fact.playable && (await makePlayable(deps, highlight, fact.prefix))
      return (await recordRenderProgress(deps.db, highlight, fact)) || isPlayable
    }
    case 'succeeded':
      return complete(deps, highlight, fact, isLastAttempt)
    case 'failed':
      return failRender(deps.db, highlight, fact.error, fact.run)
  }
}

/** The job uploads the playlist before it reports it. Checked all the same: a dead link would be worse than none. */
async function makePlayable({ db, store }: FactDeps, highlight: Render, prefix: string): Promise<boolean> {
  if (highlight.outputPrefix !== null) return false
  const key = masterKey(prefix)
  if (!(await store.head(key))) return false
  return recordFilmPlayable(db, highlight, { prefix, hlsMaster: key.slice(prefix.length) })
}

async function complete(
  deps: FactDeps,
  highlight: Render,
  { prefix, run }: Extract<RenderFact, { state: 'succeeded' }>,
  isLastAttempt: boolean,
): Promise<boolean> {
  try {
    const manifest = await readHighlightManifest(deps.store, highlight.id, prefix)
    failpoint('highlights.read')
    return await completeRender(deps.db, highlight, { prefix, manifest }, run)
  } catch (error) {
    if (!(error instanceof ManifestError) || !isLastAttempt) throw error
    deps.log.error({ err: error, highlight: highlight.id }, 'a render that succeeded left no usable manifest')
    const message = 'The film could not be used'
    return failRender(deps.db, highlight, { code: 'INTERNAL', message, mediaId: null })
  }
}

const readHighlightManifest = (store: ObjectStore, id: Uuid, prefix: string): Promise<HighlightManifest> =>
  readManifest(store, prefix, { schema: HighlightManifest, id: formatId('highlight', id), filesOf })

const filesOf = ({ hls, images }: HighlightManifest): string[] => [
  hls.master,
  ...(images ? [images.webp.file, images.thumb.file] : []),
]
