import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { FILM_FPS } from '../../lib/contract/film-length.ts'
import { HighlightManifest } from '../../lib/contract/highlight-manifest.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import { ffmpegVersion } from '../ffmpeg/ffmpeg.ts'
import { publishPoster } from '../hls/poster.ts'
import { openPublisher, PLAYLIST_TYPE } from '../hls/publisher.ts'
import { manifestEntry, masterEntry, masterPlaylistText } from '../hls/rendition-entries.ts'
import { PermanentError } from '../runtime/failure.ts'
import { findManifest, writeManifest } from '../runtime/manifest.ts'
import { type Assembled, assemble } from './assemble.ts'
import { filmLadder, shapeOf } from './canvas.ts'
import { openDamageTally } from './damage.ts'
import type { Film, FilmSpec, FilmTools } from './film-context.ts'
import { examineAll, withoutBroken } from './items.ts'
import { openPieceCache } from './piece-cache.ts'
import { type FilmPlan, planFilm } from './plan.ts'
import type { PieceTools } from './render-piece.ts'
import { openSources } from './sources.ts'
import type { Subject } from './subject.ts'

/**
 * Renders a film and commits it with manifest.json, written last. Each piece is encoded by itself and joined by copy, so
 * the memory needed does not grow with the film. A film that fails for good leaves no files behind.
 */
export async function makeFilm(tools: FilmTools, spec: FilmSpec): Promise<HighlightManifest> {
  const { store, scratch, signal, log } = tools
  const folder = join(scratch, 'hls')
  await mkdir(folder)
  const film: Film = {
    ...tools,
    spec,
    folder,
    sources: openSources({ store, folder: scratch, budgetBytes: tools.sourceBytes, signal }),
    cache: openPieceCache({ store, items: spec.items, signal, log, limitBytes: tools.cacheBytes }),
    publisher: openPublisher({ store, prefix: spec.outputPrefix, folder, segmentSeconds: spec.segmentSeconds, signal }),
    skipped: [],
    reused: 0,
  }
  try {
    return await render(film)
  } catch (error) {
    if (error instanceof PermanentError) await withdraw(film)
    throw error
  }
}

async function render(film: Film): Promise<HighlightManifest> {
  const { spec, signal } = film
  const startedAt = performance.now()
  const examined = await examineAll(film)
  // Fixed from here on: an item that proves broken later must not change the pieces of the others.
  const renditions = filmLadder(shapeOf(spec.orientation, examined), examined, spec.renditions)
  const { transition, fill, kenBurns } = spec
  const tools: PieceTools = {
    ...film,
    renditions,
    encoder: await ffmpegVersion(signal),
    damage: openDamageTally(),
    look: { transition, fill, kenBurns, title: spec.showTitle ? spec.title : null },
  }
  const subjects = await withoutBroken(film, tools, examined)
  const plan = planFilm(subjects, transition)
  const made = await assemble(film, tools, subjects, plan)
  return commit(film, { subjects, plan, made, startedAt })
}

async function commit(
  film: Film,
  {
    subjects,
    plan,
    made: { videos, audio },
    startedAt,
  }: { subjects: readonly Subject[]; plan: FilmPlan; made: Assembled; startedAt: number },
): Promise<HighlightManifest> {
  const { store, spec, signal, publisher } = film
  const seconds = plan.total / FILM_FPS
  const wallSeconds = (performance.now() - startedAt) / 1000
  film.progress.at('Publishing', 0)
  const images = await posterOf(film, videos, seconds)
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
    accelerator: film.accelerator.kind,
    acceleratorReason: film.accelerator.reason,
    hls: {
      master: 'master.m3u8',
      segmentSeconds: spec.segmentSeconds,
      durationSec: seconds,
      renditions: described.map((d) => manifestEntry(d.video, d.master, true)),
    },
    ...(images && { images }),
    items: subjects.map(({ item, frames }, k) => ({
      id: item.id,
      startSec: (plan.starts[k] ?? 0) / FILM_FPS,
      seconds: frames / FILM_FPS,
    })),
    skipped: film.skipped,
    encode: { wallSeconds, speed: seconds / Math.max(0.001, wallSeconds), reused: film.reused },
  }
  await writeManifest(store, spec.outputPrefix, HighlightManifest, manifest)
  failpoint('highlight.manifest-written')
  return manifest
}

/** A frame of the finished film, in its largest rendition. */
function posterOf(film: Film, videos: Assembled['videos'], videoSeconds: number) {
  const rendition = videos.at(-1)?.rendition
  if (!rendition) return undefined
  const { width, height, name } = rendition
  const video = { index: 0, codec: 'h264', pixelFormat: 'yuv420p', interlaced: false, colorSpace: 'bt709' }
  return publishPoster({
    ...film,
    origin: 'own',
    prefix: film.spec.outputPrefix,
    source: { video, hdr: null, width, height, videoSeconds },
    sourcePath: join(film.folder, `${name}.m3u8`),
    folder: film.scratch,
  })
}

/**
 * Removes what this attempt and earlier ones have published; best effort. Keeps the files when another attempt has
 * committed meanwhile: its files have the same names.
 */
async function withdraw({ store, log, signal, spec: { outputPrefix } }: Film): Promise<void> {
  try {
    if (!(await findManifest(store, outputPrefix, HighlightManifest, signal))) await store.deletePrefix(outputPrefix)
  } catch (error) {
    log.warn({ err: error }, 'could not remove the published files of a film that failed')
  }
}
