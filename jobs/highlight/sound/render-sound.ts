import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { runFfmpeg } from '../../ffmpeg/ffmpeg.ts'
import { guardedInput } from '../../ffmpeg/input.ts'
import type { Joins } from './fades.ts'
import { type ItemSound, type RenderTools, renderItemSound, type SoundSource } from './item-sound.ts'
import { measuring, readLoudness } from './measure.ts'
import { mixFilm } from './mix.ts'
import type { MusicSource } from './music.ts'

interface FilmLevels {
  /** Of the whole film, in LUFS, and in dBTP; null when the film is silent. */
  film: { integrated: number; truePeak: number } | null
  /** The decibels that the music was raised by, before ducking; null without music. */
  musicGainDb: number | null
}

const LIMIT_MS = 600_000

interface SoundOfFilm extends Joins, RenderTools {
  items: readonly SoundSource[]
  totalFrames: number
  music?: MusicSource
  out: string
}

/**
 * The sound of a whole film from sources that all exist at once: `renderItemSound` for each, then `mixFilm`, and a pass
 * over the film that measures it. A caller
 * that removes sources in between calls these two itself.
 */
export async function renderSound(film: SoundOfFilm): Promise<FilmLevels & { items: ItemSound[] }> {
  const items: ItemSound[] = []
  for (const [k, item] of film.items.entries()) {
    items.push(await renderItemSound(item, { ...film, out: join(film.scratch, `item-${k}.s16`) }))
  }
  const { musicGainDb } = await mixFilm({ ...film, items }, film)
  return { film: await measure(film.out, film), musicGainDb, items }
}

async function measure(path: string, { scratch, signal }: RenderTools): Promise<FilmLevels['film']> {
  const report = join(scratch, 'film.loudness')
  try {
    await runFfmpeg({
      args: [
        ...guardedInput('music', path, ['-threads', '1']),
        ...['-filter_threads', '1', '-af', measuring(report), '-f', 'null', '-'],
      ],
      signal,
      limitMs: LIMIT_MS,
    })
    const { integrated, truePeak } = await readLoudness(report)
    return Number.isFinite(integrated) ? { integrated, truePeak } : null
  } finally {
    await rm(report, { force: true })
  }
}
