import { join } from 'node:path'
import { HIGHLIGHT_FPS } from '../../lib/contract/highlight-length.ts'
import { runFfmpeg } from '../ffmpeg/ffmpeg.ts'
import { AUDIO_OPTIONS, AUDIO_STREAM, hlsOptions } from '../hls/args.ts'
import { limitFor } from '../hls/run-encode-pass.ts'
import { download } from '../runtime/download.ts'
import { PermanentError } from '../runtime/failure.ts'
import { FADE_FRAMES } from './piece-graph.ts'
import type { HighlightPlan } from './plan.ts'
import type { Render } from './render-context.ts'
import { mixHighlight } from './sound/mix.ts'
import type { MusicSource } from './sound/music.ts'
import type { Subject } from './subject.ts'

const MAX_MUSIC_BYTES = 512 * 1024 ** 2

/** Makes the sound of the highlight and cuts it into segments beside those of the pictures. */
export async function renderSound(render: Render, subjects: readonly Subject[], plan: HighlightPlan): Promise<void> {
  const { scratch, spec } = render
  const out = join(scratch, 'highlight.wav')
  const music = await fetchMusic(render)
  await mixHighlight(
    {
      items: subjects.map(({ sound }) => sound),
      transition: spec.transition,
      overlaps: plan.overlaps,
      fadeFrames: FADE_FRAMES,
      totalFrames: plan.total,
      ...(music && { music }),
      out,
    },
    render,
  )
  await encodeSound(render, out, plan.total / HIGHLIGHT_FPS)
}

async function fetchMusic({ store, scratch, spec, signal }: Render): Promise<MusicSource | undefined> {
  const { music } = spec
  if (!music) return undefined
  const path = join(scratch, 'music')
  try {
    await download(store, music.sourceKey, path, { maxBytes: MAX_MUSIC_BYTES, signal })
  } catch (error) {
    if (!(error instanceof PermanentError)) throw error
    throw new PermanentError(error.code, error.reason, `The music track ${music.id} cannot be used: ${error.message}`, {
      cause: error,
    })
  }
  return { path, name: music.id }
}

async function encodeSound({ folder, spec, signal }: Render, path: string, seconds: number): Promise<void> {
  await runFfmpeg({
    args: [
      ...['-protocol_whitelist', 'file', '-f', 'wav', '-i', `file:${path}`, '-map', '0:a', '-map_metadata', '-1'],
      ...[...AUDIO_OPTIONS, ...hlsOptions([AUDIO_STREAM], spec, folder)],
    ],
    signal,
    limitMs: limitFor(seconds),
  })
}
