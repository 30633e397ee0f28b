import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { runFfmpeg } from '../../ffmpeg/ffmpeg.ts'
import { guardedInput } from '../../ffmpeg/input.ts'
import type { Joins } from './fades.ts'
import { type ItemSound, type RenderTools, renderItemSound, type SoundSource } from './item-sound.ts'
import { measuring, readLoudness } from './measure.ts'
import { mixHighlight } from './mix.ts'
import type { MusicSource } from './music.ts'

interface HighlightLevels {
  /** Of the whole highlight, in LUFS, and in dBTP; null when the highlight is silent. */
  highlight: { integrated: number; truePeak: number } | null
  /** The decibels that the music was raised by, before ducking; null without music. */
  musicGainDb: number | null
}

const LIMIT_MS = 600_000

interface SoundOfHighlight extends Joins, RenderTools {
  items: readonly SoundSource[]
  totalFrames: number
  music?: MusicSource
  out: string
}

/**
 * The sound of a whole highlight from sources that all exist at once: `renderItemSound` for each, then `mixHighlight`, and a pass
 * over the highlight that measures it. A caller
 * that removes sources in between calls these two itself.
 */
export async function renderSound(highlight: SoundOfHighlight): Promise<HighlightLevels & { items: ItemSound[] }> {
  const items: ItemSound[] = []
  for (const [k, item] of highlight.items.entries()) {
    items.push(await renderItemSound(item, { ...highlight, out: join(highlight.scratch, `item-${k}.s16`) }))
  }
  const { musicGainDb } = await mixHighlight({ ...highlight, items }, highlight)
  return { highlight: await measure(highlight.out, highlight), musicGainDb, items }
}

async function measure(path: string, { scratch, signal }: RenderTools): Promise<HighlightLevels['highlight']> {
  const report = join(scratch, 'highlight.loudness')
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
