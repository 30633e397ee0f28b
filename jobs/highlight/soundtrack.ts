import { join } from 'node:path'
import { FILM_FPS } from '../../lib/contract/film-length.ts'
import { runFfmpeg } from '../ffmpeg/ffmpeg.ts'
import { AUDIO_OPTIONS, AUDIO_STREAM, hlsOptions } from '../hls/args.ts'
import { limitFor } from '../hls/run-encode-pass.ts'
import type { Film } from './film-context.ts'
import type { FilmPlan } from './plan.ts'
import type { Subject } from './subject.ts'

/** Makes the sound of the film and cuts it into segments beside those of the pictures. */
export async function renderSound(film: Film, _subjects: readonly Subject[], plan: FilmPlan): Promise<void> {
  const path = join(film.scratch, 'film.wav')
  const seconds = plan.total / FILM_FPS
  await runFfmpeg({
    args: ['-f', 'lavfi', '-i', 'anullsrc=r=48000:cl=stereo', '-t', seconds.toFixed(6), '-f', 'wav', path],
    signal: film.signal,
    limitMs: limitFor(seconds),
  })
  await encodeSound(film, path, seconds)
}

async function encodeSound({ folder, spec, signal }: Film, path: string, seconds: number): Promise<void> {
  await runFfmpeg({
    args: [
      ...['-protocol_whitelist', 'file', '-f', 'wav', '-i', `file:${path}`, '-map', '0:a', '-map_metadata', '-1'],
      ...[...AUDIO_OPTIONS, ...hlsOptions([AUDIO_STREAM], spec.segmentSeconds, folder)],
    ],
    signal,
    limitMs: limitFor(seconds),
  })
}
