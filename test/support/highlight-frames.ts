import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

export type Color = readonly [number, number, number]

/** The average colour of every frame of a rendition, as a player decodes it from its playlist. Throws when damaged. */
export async function frameColors(playlist: string): Promise<Color[]> {
  const { stdout, stderr } = await run(
    'ffmpeg',
    [
      ...['-nostdin', '-v', 'error', '-xerror', '-i', playlist, '-map', '0:v:0', '-fps_mode', 'passthrough'],
      ...['-vf', 'scale=1:1:flags=area', '-f', 'rawvideo', '-pix_fmt', 'rgb24', '-'],
    ],
    { encoding: 'buffer', maxBuffer: 1 << 26 },
  )
  if (stderr.length > 0) throw new Error(stderr.toString())
  return Array.from({ length: stdout.length / 3 }, (_, k) => [...stdout.subarray(3 * k, 3 * k + 3)] as unknown as Color)
}

const isNear = (a: Color, b: Color) => a.every((value, k) => Math.abs(value - (b[k] ?? 0)) < 24)

/** Which of the named colours each frame has, as runs: `['red', 30]` is thirty red frames; `?` is none of them. */
export function runsOf(frames: readonly Color[], palette: Readonly<Record<string, Color>>): [string, number][] {
  const runs: [string, number][] = []
  for (const frame of frames) {
    const name = Object.entries(palette).find(([, color]) => isNear(frame, color))?.[0] ?? '?'
    const last = runs.at(-1)
    if (last?.[0] === name) last[1] += 1
    else runs.push([name, 1])
  }
  return runs
}
