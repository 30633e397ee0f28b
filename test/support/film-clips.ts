import { join } from 'node:path'
import { ffmpeg } from './clips.ts'
import type { Color } from './film-frames.ts'
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
  const path = join(bench.folder, `${name}.mp4`)
  const color = `0x${(PALETTE[name] ?? []).map((v) => v.toString(16).padStart(2, '0')).join('')}`
  const input = ['-f', 'lavfi', '-i', `color=${color}:s=160x90:r=${rate}:d=${seconds}`]
  await ffmpeg([...input, '-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p', ...options, path])
  return bench.videoOf(path, name)
}
