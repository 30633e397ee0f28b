import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { duckingCurve, STEP_SECONDS } from './ducking.ts'
import { applyFades, type Fade, fadesOf, type Joins } from './fades.ts'
import type { ItemSound, RenderTools } from './item-sound.ts'
import { openLimiter } from './limiter.ts'
import { type Music, type MusicSource, openMusic } from './music.ts'
import { BLOCK, CHANNELS, fromDecibels, type PcmWriter, PER_VIDEO_FRAME, RATE, readPcm, writeWav } from './pcm.ts'

export interface HighlightSound extends Joins {
  items: readonly ItemSound[]
  /** Frames of the highlight, at 30 a second: those of its items without the overlaps. */
  totalFrames: number
  music?: MusicSource
  /** The file to write. */
  out: string
}

const MUSIC_IN = RATE / 2
const MUSIC_OUT = 2 * RATE

/**
 * Joins the sounds of all items, puts music under them, and writes one WAV file of exactly `totalFrames` * 1600 sample
 * frames (16-bit stereo, 48 kHz). Reads one second at a time. Throws a PermanentError (MusicFailed) that names the track
 * when it cannot be decoded. `musicGainDb` is what the music was raised by before ducking; null without music.
 */
export async function mixHighlight(
  highlight: HighlightSound,
  tools: RenderTools,
): Promise<{ musicGainDb: number | null }> {
  const placed = place(highlight)
  const count = highlight.totalFrames * PER_VIDEO_FRAME
  const music = highlight.music ? await openMusic(highlight.music, count, tools) : null
  try {
    const under = music && { music, curve: duckingCurve(ownLoudness(placed, count)) }
    await writeWav(highlight.out, count, (writer) => mix(placed, under, count, writer, tools.signal))
  } finally {
    await music?.close()
    await rm(join(tools.scratch, 'music.f32'), { force: true })
  }
  return { musicGainDb: music?.gainDb ?? null }
}

interface Placed {
  path: string | null
  /** Sample frames from the start of the highlight. */
  start: number
  count: number
  fades: { in: Fade; out: Fade }
  momentary: readonly number[]
}

function place(highlight: HighlightSound): Placed[] {
  let end = 0
  const placed = highlight.items.map(({ path, frames, momentary }, k) => {
    const start = end - (highlight.overlaps[k - 1] ?? 0)
    end = start + frames
    const count = frames * PER_VIDEO_FRAME
    return { path, start: start * PER_VIDEO_FRAME, count, fades: fadesOf(k, count, highlight), momentary }
  })
  // Sound of another length than the picture would drift: a fault of the caller, never of an upload.
  if (end !== highlight.totalFrames)
    throw new Error(`The items last ${end} frames, the highlight ${highlight.totalFrames}`)
  return placed
}

/** The momentary loudness of the highlight before music, for each tenth of a second. */
function ownLoudness(placed: readonly Placed[], count: number): number[] {
  const step = RATE * STEP_SECONDS
  const own = new Array<number>(Math.ceil(count / step)).fill(Number.NEGATIVE_INFINITY)
  for (const { start, momentary } of placed) {
    const first = Math.round(start / step)
    for (const [i, m] of momentary.entries()) own[first + i] = Math.max(own[first + i] ?? m, m)
  }
  return own.slice(0, Math.ceil(count / step))
}

interface Underlay {
  music: Music
  curve: readonly number[]
}

async function mix(
  placed: readonly Placed[],
  under: Underlay | null,
  count: number,
  writer: PcmWriter,
  signal: AbortSignal,
): Promise<void> {
  const limiter = openLimiter()
  for (let from = 0; from < count; from += BLOCK) {
    signal.throwIfAborted()
    const length = Math.min(BLOCK, count - from)
    const sum = new Float32Array(length * CHANNELS)
    for (const item of placed) await addItem(sum, from, item)
    if (under) await addMusic(sum, from, count, under)
    await writer.write(limiter.push(sum))
  }
  await writer.write(limiter.end())
}

async function addItem(sum: Float32Array, from: number, item: Placed): Promise<void> {
  const begin = Math.max(from, item.start)
  const end = Math.min(from + sum.length / CHANNELS, item.start + item.count)
  if (item.path === null || begin >= end) return
  const file = await open(item.path)
  try {
    const samples = await readPcm(file, 's16', begin - item.start, end - begin)
    applyFades(samples, begin - item.start, item.count, item.fades)
    add(sum, samples, (begin - from) * CHANNELS)
  } finally {
    await file.close()
  }
}

async function addMusic(sum: Float32Array, from: number, count: number, { music, curve }: Underlay): Promise<void> {
  const length = sum.length / CHANNELS
  const samples = await music.read(from, length)
  for (let i = 0; i < length; i++) {
    const gain = curveAt(curve, (from + i) / (RATE * STEP_SECONDS))
    samples[2 * i] = (samples[2 * i] ?? 0) * gain
    samples[2 * i + 1] = (samples[2 * i + 1] ?? 0) * gain
  }
  const third = Math.floor(count / 3)
  const fades = {
    in: { length: Math.min(MUSIC_IN, third), shape: 'smooth' },
    out: { length: Math.min(MUSIC_OUT, third), shape: 'smooth' },
  } as const
  applyFades(samples, from, count, fades)
  add(sum, samples, 0)
}

/** The gain at a point of the curve, as a factor: decibels in between lie on a line. */
function curveAt(curve: readonly number[], position: number): number {
  const i = Math.floor(position)
  const here = curve[i] ?? 0
  const next = curve[i + 1] ?? here
  return fromDecibels(here + (next - here) * (position - i))
}

function add(sum: Float32Array, samples: Float32Array, at: number): void {
  for (let i = 0; i < samples.length; i++) sum[at + i] = (sum[at + i] ?? 0) + (samples[i] ?? 0)
}
