import { mkdtemp, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { programPath } from './services/process.ts'

/** For the programs of Jobs: makes the same streams, larger ones, at a fifth of the cost. */
export const QUICK_ENCODER = { X264_PRESET: 'ultrafast' }

/** A PATH with an ffmpeg that encodes as with `QUICK_ENCODER`, for programs whose environment a test cannot choose. */
export async function quickEncoderPath(folder: string): Promise<string> {
  const eachArgument = 'for arg do shift; [ "$arg" = veryfast ] && arg=ultrafast; set -- "$@" "$arg"; done'
  return pathWithFfmpeg(folder, (real) => `${eachArgument}\nexec ${real} "$@"`)
}

/**
 * A PATH with an ffmpeg that takes in what it encodes at `rate` times the speed at which one would watch it, and does
 * all else as ever. So an encode that a test wants to look at, or to cut off, lasts long enough on every machine, and
 * costs no more.
 */
export async function slowEncoderPath(folder: string, rate: number): Promise<string> {
  return pathWithFfmpeg(
    folder,
    (real) => `case "$*" in
  *_%05d.ts*) exec ${real} -readrate ${rate} "$@" ;;
esac
exec ${real} "$@"`,
  )
}

async function pathWithFfmpeg(folder: string, scriptOf: (real: string | undefined) => string): Promise<string> {
  const bin = await mkdtemp(join(folder, 'ffmpeg-'))
  const script = `#!/bin/sh\n${scriptOf(await programPath('ffmpeg'))}\n`
  await writeFile(join(bin, 'ffmpeg'), script, { mode: 0o755 })
  return `${bin}${delimiter}${process.env['PATH'] ?? ''}`
}
