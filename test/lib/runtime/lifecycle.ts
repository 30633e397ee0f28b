import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'

const ROOT = join(import.meta.dirname, '../../..')
const SLOW = join(ROOT, 'test/support/slow-import.ts')
const PROGRAMS = [
  'api/main.ts',
  'api/worker/main.ts',
  'api/db/main.ts',
  'operator/main.ts',
  'jobs/transcode/main.ts',
] as const
const AS_FIRST = ['--pid', '--fork', '--mount-proc', '--kill-child']
const isAllowed = spawnSync('unshare', [...AS_FIRST, 'true']).status === 0

/** As in a container: process 1 of its namespace, to which a signal that nobody handles does nothing. */
const asFirstProcess = (...args: string[]): ChildProcess =>
  spawn('unshare', [...AS_FIRST, process.execPath, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })

function childOf({ pid }: ChildProcess): number {
  const child = Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim())
  if (!(child > 1)) throw new Error(`no child of ${pid}`)
  return child
}

const skip = isAllowed ? false : 'needs root: a PID namespace of its own'

t.test('the first process ends at a signal that comes while it is still importing', { skip }, async (t) => {
  const cases = [
    ...PROGRAMS.map((program) => [program, 'SIGTERM', 143] as const),
    [PROGRAMS[2], 'SIGINT', 130] as const,
  ]
  for (const [program, signal, code] of cases) {
    t.test(`${program}, ${signal}`, { timeout: 60_000 }, async (t) => {
      const unshare = asFirstProcess('--import', SLOW, join(ROOT, program))
      t.teardown(() => unshare.kill('SIGKILL'))
      const exit = once(unshare, 'exit')
      if (!unshare.stdout) throw new Error('no output')
      for await (const line of createInterface(unshare.stdout)) if (line === 'importing') break
      process.kill(childOf(unshare), signal)
      const outcome = await Promise.race([exit, sleep(15_000, 'still there', { ref: false })])
      t.strictSame(outcome, [code, null], 'as if nobody had handled it')
    })
  }
})
