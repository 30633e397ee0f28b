import { mkdtemp, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { programPath } from './services/process.ts'

/**
 * A PATH with an ffmpeg that takes in the source of a ladder at most so many times as fast as it plays: `ahead` in a first
 * pass, which makes the smallest rendition alone, `others` in each other one. What runs ahead is then decided on each machine
 * alike. The first pass has another quality: no file of it is the same as one of a pass that takes over.
 */
export async function pacedPath(
  folder: string,
  { ahead, others, smallest = '360p' }: { ahead: number; others: number; smallest?: string },
): Promise<string> {
  const real = await programPath('ffmpeg')
  const bin = await mkdtemp(join(folder, 'ffmpeg-'))
  const script = `#!/bin/sh
case "$*" in
  *" v:1,name:"*) exec ${real} -readrate ${others} "$@" ;;
  *"v:0,name:${smallest}"*)
    for arg; do
      shift
      case "$arg" in 23 | 24.6) arg=30 ;; esac
      set -- "$@" "$arg"
    done
    exec ${real} -readrate ${ahead} "$@" ;;
  *_%05d.ts*) exec ${real} -readrate ${others} "$@" ;;
esac
exec ${real} "$@"
`
  await writeFile(join(bin, 'ffmpeg'), script, { mode: 0o755 })
  return `${bin}${delimiter}${process.env['PATH'] ?? ''}`
}
