import { rm } from 'node:fs/promises'
import { HIGHLIGHT_FPS } from '../../lib/contract/highlight-length.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import { AUDIO_NAME } from '../hls/encode-pass.ts'
import { PLAYLIST_TYPE } from '../hls/publisher.ts'
import { type EncodedVideo, earlyMasterEntry, masterPlaylistText } from '../hls/rendition-entries.ts'
import type { Layout } from '../hls/timeline.ts'
import { openSegmentReader, type SegmentReader, type VerifiedStream, verifyAudio, verifyVideo } from '../hls/verify.ts'
import { openHighlightWriter } from './join.ts'
import { makePiece } from './make-piece.ts'
import { type HighlightPlan, layoutOf } from './plan.ts'
import type { Render } from './render-context.ts'
import { type PieceTools, pieceFile } from './render-piece.ts'
import { renderSound } from './soundtrack.ts'
import type { Subject } from './subject.ts'

export interface Assembled {
  videos: EncodedVideo[]
  audio: VerifiedStream
}

/**
 * Makes the sound, then the pieces one after the other; publishes both while they grow, verifies and completes them. The
 * master playlist is a first one so far.
 */
export async function assemble(
  render: Render,
  tools: PieceTools,
  subjects: readonly Subject[],
  plan: HighlightPlan,
): Promise<Assembled> {
  const { folder, publisher, signal, spec } = render
  const seconds = plan.total / HIGHLIGHT_FPS
  const layout = layoutOf(plan, spec.segmentSeconds)
  await renderSound(render, subjects, plan)
  await publisher.publishNew([AUDIO_NAME])
  const reader = openSegmentReader(folder, signal)
  await joinPieces(render, tools, subjects, plan, { layout, reader })
  failpoint('highlight.joined')

  render.progress.at('Verifying', 0)
  const videos: EncodedVideo[] = []
  for (const rendition of tools.renditions) {
    videos.push({ rendition, ...(await verifyVideo(folder, rendition, () => layout, reader.readAll)) })
  }
  const audio = await verifyAudio(folder, AUDIO_NAME, seconds)
  await publisher.publishRest([...tools.renditions.map((r) => r.name), AUDIO_NAME])
  return { videos, audio }
}

async function joinPieces(
  render: Render,
  tools: PieceTools,
  subjects: readonly Subject[],
  plan: HighlightPlan,
  { layout, reader }: { layout: Layout; reader: SegmentReader },
): Promise<void> {
  const { folder, publisher, spec } = render
  const { renditions } = tools
  const writers = renditions.map((rendition) => ({
    rendition,
    writer: openHighlightWriter(folder, rendition.name, layout, spec.segmentSeconds),
  }))
  const publishEarly = earlyMaster(render, tools, reader)
  const names = renditions.map((r) => r.name)
  // Segments are uploaded while the next piece is encoded.
  let publishing = Promise.resolve()
  render.progress.at('Encoding', 0, plan.total / HIGHLIGHT_FPS)
  try {
    for (const piece of plan.pieces) {
      const made = await makePiece(render, tools, subjects, piece)
      await publishing
      for (const { writer, rendition } of writers) await writer.append(pieceFile(made, rendition))
      await rm(made, { recursive: true, force: true })
      publishing = publisher.publishNew(names, (_, uri) => reader.read(uri)).then(publishEarly)
      // Until the next await above, a failure here has no reader; it is thrown there.
      publishing.catch(() => undefined)
      render.progress.at('Encoding', (piece.start + piece.frames) / plan.total, plan.total / HIGHLIGHT_FPS)
    }
  } finally {
    // A highlight that fails is withdrawn next: an upload in flight would end after that and stay.
    await Promise.allSettled([publishing])
  }
  await publishing
  for (const { writer } of writers) await writer.end()
}

/** Publishes a first master playlist once each rendition and the sound have a segment in the store. */
function earlyMaster(
  { publisher, progress, spec }: Render,
  { renditions }: PieceTools,
  reader: SegmentReader,
): () => Promise<void> {
  let isPublished = false
  return async () => {
    if (isPublished) return
    const audio = publisher.published(AUDIO_NAME)
    const videos: EncodedVideo[] = []
    for (const rendition of renditions) {
      const segments = publisher.published(rendition.name)
      if (!segments[0]) return
      const { codec } = await reader.read(segments[0].uri)
      videos.push({ rendition, codec, segments })
    }
    const entries = videos.map((video) => earlyMasterEntry(video, audio, spec.segmentSeconds))
    await publisher.put('master.m3u8', masterPlaylistText(entries, true), PLAYLIST_TYPE)
    isPublished = true
    failpoint('highlight.playable')
    progress.playable()
  }
}
