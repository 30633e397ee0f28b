import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { quickStart } from './quick-start.ts'

const PROGRAM = join(import.meta.dirname, '../../api/main.ts')
const HOLDING = join(import.meta.dirname, 'dying-api.ts')

interface Teardown {
  teardown(done: () => void): void
}

/** Starts `api/main.ts` with these settings and nothing else of the environment. Killed at the end of the test. */
export const startApiProcess = (t: Teardown, settings: Record<string, string>) =>
  startApiProgram(t, [PROGRAM], settings, [])

/** The same API, in which changes of organizations get no further than to right before or behind their commit. */
export function startHoldingApi(t: Teardown, place: 'done' | 'committed', settings: Record<string, string>) {
  const started = startApiProgram(t, [HOLDING, place], settings, ['ipc'])
  let count = 0
  started.child.on('message', () => {
    count += 1
  })
  return { ...started, held: () => count }
}

function startApiProgram(
  t: Teardown,
  program: readonly string[],
  settings: Record<string, string>,
  more: readonly 'ipc'[],
) {
  // A test that is itself killed must not leave servers behind.
  const mortal = process.platform === 'linux' ? ['setpriv', '--pdeathsig', 'KILL'] : []
  const [command = '', ...args] = [...mortal, process.execPath, ...program]
  const env = { PATH: process.env['PATH'], ...quickStart(), ...settings }
  const child = spawn(command, args, {
    env,
    stdio: ['ignore', 'pipe', 'pipe', ...more],
  }) as ChildProcessByStdio<null, Readable, Readable>
  let errors = ''
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString()
  })
  t.teardown(() => void child.kill('SIGKILL'))

  /** The port of the public listener, once it listens. */
  async function port(): Promise<number> {
    for await (const line of createInterface(child.stdout)) {
      const said = JSON.parse(line) as { msg: string; listening?: { publicUrl: string } }
      if (said.msg !== 'listening' || !said.listening) continue
      child.stdout.resume() // behind this line nobody reads any more
      return Number(new URL(said.listening.publicUrl).port)
    }
    throw new Error(`the API does not listen: ${errors}`)
  }
  return { child, port, errors: () => errors, exited: once(child, 'close') }
}
