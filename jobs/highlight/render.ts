import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { HIGHLIGHT_FPS } from '../../lib/contract/highlight-length.ts'
import { HighlightManifest } from '../../lib/contract/highlight-manifest.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import { installed } from '../ffmpeg/ffmpeg.ts'
import { publishPoster } from '../hls/poster.ts'
import { openPublisher, PLAYLIST_TYPE } from '../hls/publisher.ts'
import { manifestEntry, masterEntry, masterPlaylistText } from '../hls/rendition-entries.ts'
import { PermanentError } from '../runtime/failure.ts'
import { findManifest, writeManifest } from '../runtime/manifest.ts'
import { type Assembled, assemble } from './assemble.ts'
import { highlightLadder, shapeOf } from './canvas.ts'
import { openDamageTally } from './damage.ts'
import { examineAll, withoutBroken } from './items.ts'
import { openPieceCache } from './piece-cache.ts'
import { type HighlightPlan, planHighlight } from './plan.ts'
import type { JobTools, Render, RenderSpec } from './render-context.ts'
import type { PieceTools } from './render-piece.ts'
import { openSources } from './sources.ts'
import type { Subject } from './subject.ts'

/**
 * Renders a highlight and commits it with manifest.json, written last. Each piece is encoded by itself and joined by copy, so
 * the memory needed does not grow with the highlight. A highlight that fails for good leaves no files behind.
 */
export async function renderHighlight(tools: JobTools, spec: RenderSpec): Promise<HighlightManifest> {
  const { store, scratch, signal, log } = tools
  const folder = join(scratch, 'hls')
  await mkdir(folder)
  const render: Render = {
    ...tools,
    spec,
    folder,
    sources: openSources({ store, folder: scratch, budgetBytes: tools.sourceBytes, signal }),
    cache: openPieceCache({ store, items: spec.items, signal, log, limitBytes: tools.cacheBytes }),
    publisher: openPublisher({ store, prefix: spec.outputPrefix, folder, targetSeconds: spec.segmentSeconds, signal }),
    skipped: [],
    reused: 0,
  }
  try {
    return await renderAndCommit(render)
  } catch (error) {
    if (error instanceof PermanentError) await withdraw(render)
    throw error
  }
}

async function renderAndCommit(render: Render): Promise<HighlightManifest> {
  const { spec, signal } = render
  const startedAt = performance.now()
  const examined = await examineAll(render)
  // Fixed from here on: an item that proves broken later must not change the pieces of the others.
  const renditions = highlightLadder(shapeOf(spec.orientation, examined), examined, spec.renditions)
  const { transition, fill, kenBurns } = spec
  const tools: PieceTools = {
    ...render,
    renditions,
    encoder: (await installed(signal)).version,
    damage: openDamageTally(),
    look: { transition, fill, kenBurns, title: spec.showTitle ? spec.title : null },
  }
  const subjects = await withoutBroken(render, tools, examined)
  const plan = planHighlight(subjects, transition)
  const made = await assemble(render, tools, subjects, plan)
  return commit(render, { subjects, plan, made, startedAt })
}

async function commit(
  render: Render,
  {
    subjects,
    plan,
    made: { videos, audio },
    startedAt,
  }: { subjects: readonly Subject[]; plan: HighlightPlan; made: Assembled; startedAt: number },
): Promise<HighlightManifest> {
  const { store, spec, signal, publisher } = render
  const seconds = plan.total / HIGHLIGHT_FPS
  const wallSeconds = (performance.now() - startedAt) / 1000
  render.progress.at('Publishing', 0)
  const images = await posterOf(render, videos, seconds)
  const described = videos.map((video) => ({ video, master: masterEntry(video, audio.segments, spec.segmentSeconds) }))
  const master = masterPlaylistText(
    described.map((d) => d.master),
    true,
  )
  await publisher.put('master.m3u8', master, PLAYLIST_TYPE)
  failpoint('highlight.uploaded')
  signal.throwIfAborted()
  const manifest: HighlightManifest = {
    version: 1,
    id: spec.id,
    createdAt: new Date().toISOString(),
    type: 'highlight',
    accelerator: render.accelerator.kind,
    acceleratorReason: render.accelerator.reason,
    hls: {
      master: 'master.m3u8',
      segmentSeconds: spec.segmentSeconds,
      durationSec: seconds,
      renditions: described.map((d) => manifestEntry(d.video, d.master, true)),
    },
    ...(images && { images }),
    items: subjects.map(({ item, frames }, k) => ({
      id: item.id,
      startSec: (plan.starts[k] ?? 0) / HIGHLIGHT_FPS,
      seconds: frames / HIGHLIGHT_FPS,
    })),
    skipped: render.skipped,
    encode: { wallSeconds, speed: seconds / Math.max(0.001, wallSeconds), reused: render.reused },
  }
  await writeManifest(store, spec.outputPrefix, HighlightManifest, manifest)
  failpoint('highlight.manifest-written')
  return manifest
}

/** A frame of the finished highlight, in its largest rendition. */
function posterOf(render: Render, videos: Assembled['videos'], videoSeconds: number) {
  const rendition = videos.at(-1)?.rendition
  if (!rendition) return undefined
  const { width, height, name } = rendition
  const video = {
    index: 0,
    codec: 'h264',
    pixelFormat: 'yuv420p',
    interlaced: false,
    colorSpace: 'bt709',
    frame: { width, height },
  }
  return publishPoster({
    ...render,
    origin: 'own',
    prefix: render.spec.outputPrefix,
    source: { video, hdr: null, width, height, videoSeconds },
    sourcePath: join(render.folder, `${name}.m3u8`),
    folder: render.scratch,
  })
}

/**
 * Removes what this attempt and earlier ones have published; best effort. Keeps the files when another attempt has
 * committed meanwhile: its files have the same names.
 */
async function withdraw({ store, log, signal, spec: { outputPrefix } }: Render): Promise<void> {
  try {
    if (!(await findManifest(store, outputPrefix, HighlightManifest, signal))) await store.deletePrefix(outputPrefix)
  } catch (error) {
    log.warn({ err: error }, 'could not remove the published files of a highlight that failed')
  }
}
