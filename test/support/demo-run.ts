import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { processesOf } from './platform-process.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** A folder in which the demo makes its temporary folders and keeps its data. `CHECK=1` is set, unless a test clears it. */
export async function demoFolder(t: Pick<Test, 'teardown'>) {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-demo-test-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))

  /** What `make demo` runs; its samples are made in the folder too. */
  const demo = (t: Test, variables: Record<string, string>) =>
    run(t, [process.execPath, join(ROOT, 'local/demo.ts')], folder, variables)
  // Without the options of the runner: an older Node of the machine, which npm runs on, would not understand them.
  const makeDemo = (t: Test) => run(t, ['make', 'demo'], ROOT, { NODE_OPTIONS: '' })

  function run(t: Test, [program = '', ...args]: string[], cwd: string, variables: Record<string, string> = {}) {
    const { DATABASE_URL: _, KEEPSAKE_DATABASE_URL: __, ...env } = process.env
    const child = spawn(program, args, { cwd, env: { ...env, CHECK: '1', TMPDIR: folder, ...variables } })
    // make hands SIGTERM on to what it has started; SIGKILL would end make alone.
    t.teardown(() => void child.kill(program === 'make' ? 'SIGTERM' : 'SIGKILL'))
    let text = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
    }
    const ended = once(child, 'close').then(([code, signal]) => (code as number | null) ?? String(signal))
    return { child, ended, output: () => text }
  }

  /** Nothing that the demo made may outlive it. */
  async function isClean(t: Test): Promise<void> {
    t.strictSame(processesOf(folder), [], 'no process is left')
    t.strictSame(
      (await readdir(folder)).filter((name) => /^keepsake-demo-(?!test)/.test(name)),
      [],
      'no folder is left',
    )
  }
  return { folder, demo, makeDemo, isClean }
}
