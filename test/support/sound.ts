import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'

const run = promisify(execFile)

/** Runs ffmpeg with these arguments; returns what it printed. */
export const ffmpeg = async (...args: string[]): Promise<string> =>
  (await run('ffmpeg', ['-nostdin', '-hide_banner', '-nostats', '-y', ...args], { maxBuffer: 64e6 })).stderr

/** An expression for `aevalsrc`: noise that comes and goes as syllables do, with pauses. Another `seed` is another voice. */
export const speech = (volume: number, seed = 1) =>
  `${volume}*(random(${seed})-0.5)*(0.1+pow(sin(PI*t*2.5),2))*lt(mod(t,2.6),1.8)`

/** Makes a file with one sound stream from a source of lavfi. */
export async function recording(t: Test, name: string, source: string, ...options: string[]): Promise<string> {
  const path = join(t.testdirName, name)
  await ffmpeg('-v', 'error', '-f', 'lavfi', '-i', source, ...options, path)
  return path
}

/** What ffmpeg's EBU R128 meter says about a part of a file: LUFS and dBTP. */
export async function loudness(path: string, from = 0, to = 1e6, filter = 'anull') {
  const part = `atrim=start=${from}:end=${to},${filter},ebur128=peak=true`
  const text = await ffmpeg('-v', 'info', '-i', path, '-af', part, '-f', 'null', '-')
  const summary = text.slice(text.lastIndexOf('Summary:'))
  const value = (pattern: RegExp) => Number((pattern.exec(summary)?.[1] ?? 'NaN').replace('inf', 'Infinity'))
  return { integrated: value(/I:\s+(\S+) LUFS/), truePeak: value(/Peak:\s+(\S+) dBFS/) }
}

/** The left channel of a WAV file as rendered: numbers from -1 to 1, and how many sample frames it holds. */
export async function leftOf(path: string): Promise<Float64Array> {
  const bytes = await readFile(path)
  const size = bytes.readUInt32LE(40)
  if (size !== bytes.length - 44) throw new Error('The header of the WAV file does not match its size')
  return Float64Array.from({ length: size / 4 }, (_, i) => bytes.readInt16LE(44 + i * 4) / 32_768)
}

/** The index of the first sample louder than `level` from `from` on. */
export const firstAbove = (samples: Float64Array, level: number, from = 0): number =>
  samples.findIndex((sample, i) => i >= from && Math.abs(sample) > level)

export const rms = (samples: Float64Array): number =>
  Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length)
