import { join } from 'node:path'
import type { Joins } from './fades.ts'
import { type ItemSound, type RenderTools, renderItemSound, type SoundSource } from './item-sound.ts'
import { type FilmLevels, mixFilm } from './mix.ts'
import type { MusicSource } from './music.ts'

interface SoundOfFilm extends Joins, RenderTools {
  items: readonly SoundSource[]
  totalFrames: number
  music?: MusicSource
  out: string
}

/**
 * The sound of a whole film from sources that all exist at once: `renderItemSound` for each, then `mixFilm`. A caller
 * that removes sources in between calls these two itself.
 */
export async function renderSound(film: SoundOfFilm): Promise<FilmLevels & { items: ItemSound[] }> {
  const items: ItemSound[] = []
  for (const [k, item] of film.items.entries()) {
    items.push(await renderItemSound(item, { ...film, out: join(film.scratch, `item-${k}.s16`) }))
  }
  return { ...(await mixFilm({ ...film, items }, film)), items }
}
