import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { badInput } from '../../runtime/failure.ts'
import { decode } from './decode.ts'
import { gainFor, type Loudness } from './levelling.ts'
import { CEILING_DBTP, openLimiter } from './limiter.ts'
import { BLOCK, fromDecibels, type PcmWriter, PER_VIDEO_FRAME, pcmLength, readPcm, writeRaw } from './pcm.ts'

export interface SoundSource {
  /** An absolute path; null for an item without sound, such as an image. */
  path: string | null
  /** The index of the audio stream in the file, as `Source.audio.index`; null when it has none. */
  stream: number | null
  /** Where the item begins, in seconds from the start of the presentation (`-ss` of ffmpeg). */
  startSec: number
  /** Frames of the item in the highlight, at 30 a second, overlaps included. */
  frames: number
}

/** The sound of one item: plain data, which can be stored as JSON beside its file. */
export interface ItemSound {
  /** Raw 16-bit stereo at 48 kHz, at most `frames` * 1600 sample frames; null when there is nothing to hear. */
  path: string | null
  frames: number
  /** The decibels that it was raised by; negative when it was lowered. */
  gainDb: number
  /** As recorded, in LUFS and dBTP; null when silent. */
  source: { integrated: number; truePeak: number } | null
  /** Momentary loudness as rendered, in whole LUFS at each tenth of a second. Silence is -120. */
  momentary: number[]
}

export interface RenderTools {
  /** An existing folder for working files; they are removed. */
  scratch: string
  signal: AbortSignal
}

const SILENCE_LUFS = -120

/**
 * Renders the sound of one item to a file at `out`: from its own start, at the loudness of all items, true peaks at
 * -1.5 dBTP at most. The source is no longer needed afterwards. Throws a PermanentError (CorruptInput) when the stream
 * cannot be decoded.
 */
export async function renderItemSound(
  item: SoundSource,
  { out, scratch, signal }: RenderTools & { out: string },
): Promise<ItemSound> {
  const { path, stream, startSec, frames } = item
  if (path === null || stream === null) return silence(frames)
  const raw = join(scratch, 'item.f32')
  try {
    const count = frames * PER_VIDEO_FRAME
    const loudness = await decode({
      kind: 'upload',
      path,
      stream: `0:${stream}`,
      startSec,
      count,
      out: raw,
      signal,
      refusal: (cause) => badInput('CorruptInput', 'The sound of the video cannot be decoded', { cause }),
    })
    if (loudness.truePeak === Number.NEGATIVE_INFINITY) return silence(frames)
    const gainDb = gainFor(loudness)
    await writeRaw(out, (writer) => amplify(raw, gainDb, loudness.truePeak, writer))
    return described(out, frames, gainDb, loudness)
  } finally {
    await rm(raw, { force: true })
  }
}

const silence = (frames: number): ItemSound => ({ path: null, frames, gainDb: 0, source: null, momentary: [] })

const described = (path: string, frames: number, gainDb: number, loudness: Loudness): ItemSound => ({
  path,
  frames,
  gainDb,
  source: { integrated: Math.max(SILENCE_LUFS, loudness.integrated), truePeak: loudness.truePeak },
  momentary: loudness.momentary.map((m) => Math.round(Math.max(SILENCE_LUFS, m + gainDb))),
})

async function amplify(raw: string, gainDb: number, truePeak: number, writer: PcmWriter): Promise<void> {
  const factor = fromDecibels(gainDb)
  const limiter = truePeak + gainDb > CEILING_DBTP ? openLimiter() : null
  const file = await open(raw)
  try {
    const count = await pcmLength(file, 'f32')
    for (let from = 0; from < count; from += BLOCK) {
      const samples = await readPcm(file, 'f32', from, Math.min(BLOCK, count - from))
      const louder = samples.map((sample) => sample * factor)
      await writer.write(limiter ? limiter.push(louder) : louder)
    }
    if (limiter) await writer.write(limiter.end())
  } finally {
    await file.close()
  }
}
