import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { clipOf } from './clips.ts'
import type { Color } from './highlight-frames.ts'
import type { highlightBench } from './highlight-run.ts'

export const PALETTE: Record<string, Color> = {
  red: [200, 30, 30],
  green: [30, 160, 30],
  blue: [30, 30, 200],
  grey: [128, 128, 128],
  black: [0, 0, 0],
}

export interface ColorClip {
  rate?: string
  seconds?: number
  options?: string[]
}

/** An item that is one colour: 160x90 without sound. */
export async function colorItem(
  bench: Awaited<ReturnType<typeof highlightBench>>,
  name: string,
  { rate = '30', seconds = 1, options = [] }: ColorClip = {},
) {
  const color = `0x${(PALETTE[name] ?? []).map((v) => v.toString(16).padStart(2, '0')).join('')}`
  const input = ['-f', 'lavfi', '-i', `color=${color}:s=160x90:r=${rate}:d=${seconds}`]
  const path = await clipOf([...input, '-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p', ...options])
  return bench.videoOf(path, name)
}

const run = promisify(execFile)

/** A moving picture of 160x90 without sound, in which exactly the given frames do not decode cleanly. 30 frames a second unless `rate` says otherwise. */
export async function damagedItem(
  bench: Awaited<ReturnType<typeof highlightBench>>,
  name: string,
  { seconds, damaged, rate = 30 }: { seconds: number; damaged: readonly number[]; rate?: number },
) {
  const input = ['-f', 'lavfi', '-i', `testsrc2=s=160x90:r=${rate}:d=${seconds}`]
  // Keyframes only: damage does not spread to the frames after it.
  const source = await clipOf([...input, '-c:v', 'libx264', '-preset', 'veryfast', '-pix_fmt', 'yuv420p', '-g', '1'])
  const bytes = await readFile(source)
  const packets = ['-select_streams', 'v', '-show_entries', 'packet=pos,size', '-of', 'csv=p=0']
  const { stdout } = await run('ffprobe', ['-v', 'error', ...packets, source])
  const places = stdout.split('\n').map((line) => line.split(',').map(Number))
  for (const frame of damaged) {
    const [size = 0, at = 0] = places[frame] ?? []
    for (let k = Math.floor(size / 3); k < size * 0.9; k += 1)
      bytes.writeUInt8(((bytes[at + k] ?? 0) + 13) & 255, at + k)
  }
  const path = join(bench.folder, `${name}.mp4`)
  await writeFile(path, bytes)
  return bench.videoOf(path, name)
}

/** A clip of 160x90 with sound, of which the end is missing, although its container says how long it was: three seconds. */
export async function truncatedItem(bench: Awaited<ReturnType<typeof highlightBench>>, name: string) {
  const whole = await clipOf([
    ...['-f', 'lavfi', '-i', 'testsrc2=s=160x90:r=30:d=3', '-f', 'lavfi', '-i', 'sine=d=3', '-c:v', 'libx264'],
    ...['-preset', 'ultrafast', '-pix_fmt', 'yuv420p', '-g', '30', '-c:a', 'aac', '-movflags', '+faststart'],
  ])
  const bytes = await readFile(whole)
  const path = join(bench.folder, `${name}.mp4`)
  await writeFile(path, bytes.subarray(0, Math.floor(bytes.length * 0.6)))
  return bench.videoOf(path, name)
}
