import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { clipOf } from './clips.ts'

const run = promisify(execFile)

/** Runs ffmpeg with these arguments; returns what it printed. */
export const ffmpeg = async (...args: string[]): Promise<string> =>
  (await run('ffmpeg', ['-nostdin', '-hide_banner', '-nostats', '-y', ...args], { maxBuffer: 64e6 })).stderr

/** An expression for `aevalsrc`: noise that comes and goes as syllables do, with pauses. Another `seed` is another voice. */
export const speech = (volume: number, seed = 1) =>
  `${volume}*(random(${seed})-0.5)*(0.1+pow(sin(PI*t*2.5),2))*lt(mod(t,2.6),1.8)`

/** The path of a file of this type, such as `wav`, with one sound stream from a source of lavfi; made once per machine. */
export const recording = (type: string, source: string, ...options: string[]): Promise<string> =>
  clipOf(['-f', 'lavfi', '-i', source, ...options], type)

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
  // A loop each, here and below: a callback for each of a million samples takes longer than to render them.
  const samples = new Float64Array(size / 4)
  for (let i = 0; i < samples.length; i++) samples[i] = bytes.readInt16LE(44 + i * 4) / 32_768
  return samples
}

/** Seconds between two beeps of `beeps`: 32 frames of AC-3. */
export const BEEPS_EVERY = 1.024
/** An expression for `aevalsrc`: a beep of a tenth of a second half a second after each multiple of that time. */
export const beeps = `0.5*between(mod(t,${BEEPS_EVERY}),0.5,0.6)*sin(2*PI*1000*t)`

/** The seconds at which sound begins behind at least a fifth of a second without. */
export async function onsets(path: string): Promise<number[]> {
  const args = ['-nostdin', '-v', 'error', '-i', path, '-map', '0:a:0', '-ac', '1', '-ar', '48000', '-f', 's16le', '-']
  const { stdout } = await run('ffmpeg', args, { encoding: 'buffer', maxBuffer: 64e6 })
  const found: number[] = []
  let last = Number.NEGATIVE_INFINITY
  for (let i = 0; i < stdout.length / 2; i++) {
    if (Math.abs(stdout.readInt16LE(2 * i)) < 3000) continue
    if (i - last > 9600) found.push(i / 48_000)
    last = i
  }
  return found
}

/** Sound of four seconds that begins with one channel and goes on with two, `beeps` in both. */
export async function joinedSound(): Promise<string> {
  const part = (channels: string) =>
    recording('ac3', `aevalsrc='${beeps}':s=48000:d=${2 * BEEPS_EVERY}`, '-c:a', 'ac3', '-b:a', '96k', '-ac', channels)
  return `concat:${await part('1')}|${await part('2')}`
}

/** The index of the first sample louder than `level` from `from` on. */
export function firstAbove(samples: Float64Array, level: number, from = 0): number {
  for (let i = from; i < samples.length; i++) if (Math.abs(samples[i] ?? 0) > level) return i
  return -1
}

export function rms(samples: Float64Array): number {
  let sum = 0
  for (const sample of samples) sum += sample * sample
  return Math.sqrt(sum / samples.length)
}
