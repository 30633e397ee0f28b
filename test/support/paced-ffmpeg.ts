import { mkdtemp, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { programPath } from './services/process.ts'

/**
 * A PATH with an ffmpeg that takes in the source of a ladder at most so many times as fast as it plays: `ahead` in a first
 * pass that makes 360p and the sound, `others` in each other one. What runs ahead is then decided on each machine alike.
 */
export async function pacedPath(folder: string, { ahead, others }: { ahead: number; others: number }): Promise<string> {
  const real = await programPath('ffmpeg')
  const bin = await mkdtemp(join(folder, 'ffmpeg-'))
  const script = `#!/bin/sh
case "$*" in
  *"name:360p a:0,"*) exec ${real} -readrate ${ahead} "$@" ;;
  *_%05d.ts*) exec ${real} -readrate ${others} "$@" ;;
esac
exec ${real} "$@"
`
  await writeFile(join(bin, 'ffmpeg'), script, { mode: 0o755 })
  return `${bin}${delimiter}${process.env['PATH'] ?? ''}`
}
