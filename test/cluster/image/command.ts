import { spawn } from 'node:child_process'
import { join } from 'node:path'

/** Runs a program to its end and returns what it printed. Throws with the end of its error output. */
export async function run(command: string, args: readonly string[], env: Record<string, string> = {}): Promise<string> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } })
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err = (err + text).slice(-8000)
  })
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject).once('close', resolve)
  })
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}:\n${out.slice(-2000)}${err}`)
  return out
}

/** buildah with a store of its own below `cache`: nobody else's images are seen or touched. */
export const buildah = (cache: string, args: readonly string[]): Promise<string> =>
  run('buildah', ['--root', join(cache, 'storage'), '--runroot', join(cache, 'run'), ...args], {
    STORAGE_DRIVER: 'overlay',
    BUILDAH_ISOLATION: 'chroot',
  })
