import { mkdtemp, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { programPath } from './services/process.ts'

/** For the programs of Jobs: makes the same streams, larger ones, at a fifth of the cost. */
export const QUICK_ENCODER = { X264_PRESET: 'ultrafast' }

/**
 * A PATH with an ffmpeg that takes in what it encodes at `rate` times the speed at which one would watch it, and does
 * all else as ever. So an encode that a test wants to look at, or to cut off, lasts long enough on every machine, and
 * costs no more.
 */
export async function slowEncoderPath(folder: string, rate: number): Promise<string> {
  const real = await programPath('ffmpeg')
  const script = `#!/bin/sh
case "$*" in
  *_%05d.ts*) exec ${real} -readrate ${rate} "$@" ;;
esac
exec ${real} "$@"
`
  const bin = await mkdtemp(join(folder, 'ffmpeg-'))
  await writeFile(join(bin, 'ffmpeg'), script, { mode: 0o755 })
  return `${bin}${delimiter}${process.env['PATH'] ?? ''}`
}
