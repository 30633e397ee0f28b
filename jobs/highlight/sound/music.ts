import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { badInput } from '../../runtime/failure.ts'
import { decode } from './decode.ts'
import { MUSIC_ALONE_LUFS } from './ducking.ts'
import type { RenderTools } from './item-sound.ts'
import { CEILING_DBTP } from './limiter.ts'
import { BLOCK, CHANNELS, fromDecibels, pcmLength, RATE, readPcm } from './pcm.ts'

export interface MusicSource {
  /** An absolute path. */
  path: string
  /** Shown to the user when the file cannot be decoded. */
  name: string
}

/** Music that never ends. */
export interface Music {
  /** `count` sample frames from `from`, at the loudness of music alone. */
  read: (from: number, count: number) => Promise<Float32Array>
  gainDb: number
  close: () => Promise<void>
}

const MAX_GAIN_DB = 24
const MAX_LIMITING_DB = 6
/** Encoders of MP3 leave silence at both ends, which a loop would repeat: what is below -60 dBFS counts as silence. */
const SILENT = 0.001
/** The end of a loop is faded into its start over 10 ms: too short to be heard as a change of tempo, and no click. */
const SEAM = RATE / 100

/**
 * Decodes a track as far as a highlight of `count` sample frames needs it. Throws a PermanentError (MusicFailed) that names
 * the track when it cannot be decoded or is empty.
 */
export async function openMusic(
  { path, name }: MusicSource,
  count: number,
  { scratch, signal }: RenderTools,
): Promise<Music> {
  const raw = join(scratch, 'music.f32')
  const refuse = (cause?: Error) => badInput('MusicFailed', `The music “${name}” cannot be decoded`, { cause })
  const loudness = await decode({
    kind: 'music',
    path,
    stream: '0:a:0',
    startSec: 0,
    count,
    out: raw,
    signal,
    refusal: refuse,
  })
  const file = await open(raw)
  try {
    const length = await pcmLength(file, 'f32')
    if (length === 0) throw refuse()
    const wanted = Math.min(MUSIC_ALONE_LUFS - loudness.integrated, MAX_GAIN_DB)
    const gainDb = Number.isFinite(wanted) ? Math.min(wanted, CEILING_DBTP + MAX_LIMITING_DB - loudness.truePeak) : 0
    const { from, end } = length < count ? await audiblePart(file, length) : { from: 0, end: length }
    const loop = { file, from, length: end - from, factor: fromDecibels(gainDb), isRepeated: length < count }
    return { gainDb, read: await looped(loop), close: () => file.close() }
  } catch (error) {
    await file.close()
    throw error
  }
}

/** Without the silence at both ends; all of it when there is nothing else. */
async function audiblePart(file: FileHandle, length: number): Promise<{ from: number; end: number }> {
  let first = length
  let last = 0
  for (let at = 0; at < length; at += BLOCK) {
    const samples = await readPcm(file, 'f32', at, Math.min(BLOCK, length - at))
    const isAudible = (sample: number) => Math.abs(sample) > SILENT
    const found = samples.findIndex(isAudible)
    if (found < 0) continue
    first = Math.min(first, at + Math.floor(found / CHANNELS))
    last = at + Math.floor(samples.findLastIndex(isAudible) / CHANNELS)
  }
  return first < last ? { from: first, end: last + 1 } : { from: 0, end: length }
}

interface Loop {
  file: FileHandle
  from: number
  length: number
  factor: number
  isRepeated: boolean
}

async function looped({ file, from, length, factor, isRepeated }: Loop): Promise<Music['read']> {
  const seam = isRepeated ? Math.min(SEAM, Math.floor(length / 4)) : 0
  const period = length - seam
  const head = await readPcm(file, 'f32', from, seam)
  const tail = await readPcm(file, 'f32', from + period, seam)
  // The very first round begins with the seam too; it is under the fade at the start of the highlight.
  const blended = head.map((sample, i) => {
    const x = ((Math.floor(i / CHANNELS) + 0.5) / seam) * (Math.PI / 2)
    return sample * Math.sin(x) + (tail[i] ?? 0) * Math.cos(x)
  })
  return async (at, count) => {
    const out = new Float32Array(count * CHANNELS)
    for (let done = 0; done < count; ) {
      const position = (at + done) % period
      const part = Math.min(count - done, period - position)
      const samples = await readPcm(file, 'f32', from + position, part)
      if (position < seam) samples.set(blended.subarray(position * CHANNELS).subarray(0, samples.length))
      out.set(samples, done * CHANNELS)
      done += part
    }
    return out.map((sample) => sample * factor)
  }
}
