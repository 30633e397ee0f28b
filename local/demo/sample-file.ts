import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { dyingWithUs } from '../postgres-folder.ts'

const run = promisify(execFile)

/** Makes a file, unless it exists, under another name first: one that exists is complete. */
export async function sampleFile(path: string, work: (draft: string) => Promise<unknown>): Promise<string> {
  if ((await stat(path).catch(() => undefined))?.isFile()) return path
  await mkdir(dirname(path), { recursive: true })
  const draft = path.replace(/(\.\w+)$/, `.${process.pid}$1`)
  try {
    await work(draft)
    await rename(draft, path)
  } finally {
    await rm(draft, { force: true })
  }
  return path
}

/** Of starts that were killed, and of earlier versions. A younger one may be of a process that makes the same file now. */
export async function removeDrafts(folder: string): Promise<void> {
  const before = Date.now() - 10 * 60_000
  for (const name of await readdir(folder).catch(() => [])) {
    if (!/\.\d+(\.\w+)?$/.test(name) && name !== 'fractal-journey.mp4') continue
    const path = join(folder, name)
    const found = await stat(path).catch(() => undefined)
    if (found && found.mtimeMs < before) await rm(path, { force: true })
  }
}

/**
 * Runs an encoder until it ends or `signal` is aborted, and has nothing left of it when it resolves or rejects. On Linux
 * it ends too when this process is killed.
 */
export async function encode(signal: AbortSignal, command: string[], input?: Uint8Array): Promise<void> {
  const [program = '', ...args] = [...(await dyingWithUs()), ...command]
  // sharp sets VIPSHOME to the place of its own library, where `vips` finds none of its formats.
  const { VIPSHOME: _, ...env } = process.env
  const encoding = run(program, args, { env, signal, killSignal: 'SIGKILL' })
  const closed = once(encoding.child, 'close').catch(() => {})
  // One that ends early says why in its status.
  encoding.child.stdin?.on('error', () => {}).end(input)
  try {
    await encoding
  } finally {
    // When it is aborted, execFile rejects before the program has ended.
    await closed
  }
}
