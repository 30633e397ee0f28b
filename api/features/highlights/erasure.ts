import { HIGHLIGHT_RENDERS } from '../../../crds/highlight-render.ts'
import { parseId } from '../../../lib/contract/ids.ts'
import { type EraseDeps, type Erased, type ErasedPerson, type PersonalPart, step } from '../../personal/part.ts'
import { resourcesOf } from '../../personal/queries.ts'
import { removeResource } from '../../worker/remove-resource.ts'
import { countUnpurged, eraseWords, recordHighlights } from './erasure-queries.ts'
import { disownPieces } from './pieces/queries.ts'
import { ERASED, eraseHighlightsOf } from './render/commands.ts'
import type { HighlightRenderObject } from './render/facts.ts'
import { purgeHighlights } from './render/purge.ts'

/** What a worker that died has claimed is free again soon: someone waits for it. */
const LEASE_SECONDS = 30
const FILE = { harmless: 'a file name of the program; removed with the files' }

export const highlightsPart: PersonalPart = {
  personal: {
    highlights: {
      holds: 'highlights, and the state of their render',
      kept: 'until 8 days after the deletion',
      columns: {
        created_by: { person: { stays: 'with highlights of media items of others, which stay' } },
        title: { erase: 'replaced in those that the person made', canary: 'text' },
        render_progress: { harmless: 'numbers' },
        output_prefix: FILE,
        hls_master: FILE,
        webp_file: FILE,
        thumb_file: FILE,
        placeholder: { erase: 'removed with the files', canary: 'token' },
        manifest: { harmless: 'where media items, by id, are in the film; removed with the files' },
        error: { harmless: 'a code, its text and the id of a media item' },
        deleted_by: { person: { stays: 'until the row is deleted' } },
      },
    },
    media_pieces: {
      holds: 'how large what is kept of media items for later highlights is',
      kept: '30 days after the last highlight that used it',
      columns: { used_by: { person: 'gone' }, lease_token: { harmless: 'random' } },
    },
    highlight_items: {
      holds: 'the media items of a highlight',
      kept: 'as long as the highlight',
      columns: {
        media_id: { harmless: 'the id of a media item' },
        source_id: { harmless: 'the id of a media item' },
        uploader_id: { person: { stays: 'a highlight of others says which items it had' } },
        caption: { erase: 'removed where the person wrote it or uploaded the item', canary: 'text' },
        skipped: { harmless: 'why an item was left out' },
        caption_by: { person: 'gone' },
      },
    },
  },
  erase: [
    {
      name: 'highlights.withdrawal',
      phase: 'composites',
      does: 'highlights that show media items of the person, or words that the person wrote, are withdrawn from everyone; their titles and captions by the person are removed, also of highlights that stay',
      run: withdraw,
    },
    step({
      name: 'highlights.pieces',
      phase: 'texts',
      does: 'what is kept for later highlights no longer names the person as the last who used it',
      run: ({ db }, { userId }) => db.inTransaction({}, async (tx) => ({ pieces: await disownPieces(tx, userId) })),
    }),
    {
      name: 'highlights.files',
      phase: 'files',
      does: 'renders are stopped, HighlightRenders are deleted in the cluster, and the files of withdrawn highlights in the object store',
      run: purge,
    },
  ],
}

async function withdraw({ db, signal }: EraseDeps, person: ErasedPerson): Promise<Erased> {
  await db.inTransaction({}, (tx) => recordHighlights(tx, person))
  await eraseHighlightsOf(db, person.userId)
  const ids = await db.read({}, (tx) => resourcesOf(tx, person.erasureId, ['highlight']))
  for (const id of [...ids].sort()) {
    signal?.throwIfAborted()
    await db.inTransaction({}, (tx) => eraseWords(tx, id, person.userId, ERASED))
  }
  return { counts: { highlights: ids.size } }
}

/** The specifications hold titles and captions: finished resources go as well. */
async function purge(deps: EraseDeps, { erasureId }: ErasedPerson): Promise<Erased> {
  const { db, cluster, namespace, signal } = deps
  const theirs = await db.read({}, (tx) => resourcesOf(tx, erasureId, ['highlight']))
  const renders = await cluster.list<HighlightRenderObject>(HIGHLIGHT_RENDERS, { namespace })
  let resources = 0
  for (const render of renders) {
    const id = parseId('highlight', render.spec.id)
    if (id === undefined || !theirs.has(id)) continue
    await removeResource(deps, HIGHLIGHT_RENDERS, render)
    resources += 1
  }
  const objects = await purgeHighlights(deps, { leaseSeconds: LEASE_SECONDS, ...(signal && { signal }) })
  const left = await db.read({}, (tx) => countUnpurged(tx, erasureId))
  return { counts: { resources, objects }, ...(left > 0 && { isWaiting: true }) }
}
