import { type FileHandle, open } from 'node:fs/promises'

/** All sound of a highlight is stereo at this rate; two samples, left and right, are a sample frame here. */
export const RATE = 48_000
export const CHANNELS = 2
/** Sample frames per frame of a highlight of 30 frames per second: a whole number, so nothing drifts. */
export const PER_VIDEO_FRAME = 1600
/** Sample frames that are read, mixed and written at a time: one second. */
export const BLOCK = 30 * PER_VIDEO_FRAME

/** Raw interleaved stereo: 32-bit floats as decoded, 16-bit integers as rendered. Little-endian, as the processor is. */
export type PcmFormat = 'f32' | 's16'
const BYTES = { f32: 4, s16: 2 }
const FULL_SCALE = 32_768
const WAV_HEADER = 44

/** Reads `count` sample frames from `from` as floats; what lies beyond the end of the file is silence. */
export async function readPcm(file: FileHandle, format: PcmFormat, from: number, count: number): Promise<Float32Array> {
  const samples = new Float32Array(count * CHANNELS)
  const raw = format === 'f32' ? samples : new Int16Array(samples.length)
  await readFully(file, new Uint8Array(raw.buffer), from * CHANNELS * BYTES[format])
  if (raw !== samples) for (let i = 0; i < samples.length; i++) samples[i] = (raw[i] ?? 0) / FULL_SCALE
  return samples
}

async function readFully(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesRead } = await file.read(bytes, done, bytes.length - done, position + done)
    if (bytesRead === 0) return
    done += bytesRead
  }
}

/** Sample frames in a raw file. */
export async function pcmLength(file: FileHandle, format: PcmFormat): Promise<number> {
  return Math.floor((await file.stat()).size / (CHANNELS * BYTES[format]))
}

export interface PcmWriter {
  write: (samples: Float32Array) => Promise<void>
}

/** Writes 16-bit sound to a raw file, which `use` fills from start to end. */
export const writeRaw = (path: string, use: (writer: PcmWriter) => Promise<void>): Promise<void> =>
  writeS16(path, new Uint8Array(), use)

/** Writes 16-bit sound to a WAV file of exactly `count` sample frames, at most six hours. */
export const writeWav = (path: string, count: number, use: (writer: PcmWriter) => Promise<void>): Promise<void> =>
  writeS16(path, wavHeader(count), use)

async function writeS16(path: string, header: Uint8Array, use: (writer: PcmWriter) => Promise<void>): Promise<void> {
  const file = await open(path, 'w')
  try {
    await file.writeFile(header)
    await use({ write: (samples) => file.writeFile(new Uint8Array(toS16(samples).buffer)) })
  } finally {
    await file.close()
  }
}

function toS16(samples: Float32Array): Int16Array {
  const out = new Int16Array(samples.length)
  for (let i = 0; i < out.length; i++) {
    const value = Math.round((samples[i] ?? 0) * FULL_SCALE)
    out[i] = Math.max(-FULL_SCALE, Math.min(FULL_SCALE - 1, value))
  }
  return out
}

function wavHeader(count: number): Uint8Array {
  const bytesPerFrame = CHANNELS * BYTES.s16
  const size = count * bytesPerFrame
  const header = Buffer.alloc(WAV_HEADER)
  header.write('RIFF', 0)
  header.writeUInt32LE(WAV_HEADER - 8 + size, 4)
  header.write('WAVEfmt ', 8)
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(CHANNELS, 22)
  header.writeUInt32LE(RATE, 24)
  header.writeUInt32LE(RATE * bytesPerFrame, 28)
  header.writeUInt16LE(bytesPerFrame, 32)
  header.writeUInt16LE(BYTES.s16 * 8, 34)
  header.write('data', 36)
  header.writeUInt32LE(size, 40)
  return header
}

export const fromDecibels = (decibels: number): number => 10 ** (decibels / 20)
