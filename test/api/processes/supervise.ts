import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { freePort } from '../../../local/ports.ts'
import { childrenOf, isRunning } from '../../support/api-processes.ts'
import { eventually } from '../../support/eventually.ts'
import { quickStart } from '../../support/quick-start.ts'

/** The supervisor with processes that do nothing but what the test is about, and with little patience. */
const PROGRAM = join(import.meta.dirname, '../../support/supervised.ts')
/** From the start of a Node process to its first line, on a machine that does much else. */
const SLOW = { timeout: 120_000 }

async function start(t: Test, kind: string) {
  const port = await freePort()
  const env = { PATH: process.env['PATH'], ...quickStart(), PORT: String(port) }
  const child = spawn(process.execPath, [PROGRAM, kind], { env, detached: true, stdio: ['ignore', 'pipe', 'inherit'] })
  const { pid = 0 } = child
  const signalGroup = (signal: NodeJS.Signals) => process.kill(-pid, signal)
  t.teardown(() => {
    try {
      signalGroup('SIGKILL')
    } catch {
      // all have ended
    }
  })
  const exited = once(child, 'close')
  const logged: Record<string, unknown>[] = []
  createInterface(child.stdout).on('line', (line) => void logged.push(JSON.parse(line) as Record<string, unknown>))
  const count = (msg: string) => logged.filter((line) => line['msg'] === msg).length
  const says = (msg: string, times = 1) => eventually(`${times}: ${msg}`, () => count(msg) >= times)
  await says('all processes listen')
  return {
    child,
    exited,
    logged,
    count,
    says,
    signalGroup,
    pids: () => childrenOf(pid),
    status: (path: string) =>
      fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(10_000) }).then(
        (res) => res.status,
        () => 0,
      ),
    async toggle() {
      const before = count('switched')
      child.kill('SIGUSR2')
      await says('switched', before + 1)
    },
  }
}

const kill = (pid: number | undefined, signal: NodeJS.Signals) => process.kill(pid ?? 0, signal)

t.test('a signal to the whole group lets all drain, though it reaches each process twice', SLOW, async (t) => {
  const all = await start(t, '')
  all.signalGroup('SIGTERM')
  t.strictSame(await all.exited, [0, null])
  t.equal(all.count('draining'), 2)
  t.match(
    all.logged.filter(({ msg }) => msg === 'a process ended'),
    [
      { code: 0, signal: null, level: 'info' },
      { code: 0, signal: null, level: 'info' },
    ],
  )
})

t.test('a process that hangs is replaced, alone, and the log says which', SLOW, async (t) => {
  const all = await start(t, '')
  const [stuck = 0, other = 0] = all.pids()
  kill(stuck, 'SIGUSR1')
  await all.says('a process is killed')
  await all.says('all processes listen', 2)
  t.ok(isRunning(other))
  t.notOk(all.pids().includes(stuck))
  t.match(
    all.logged.filter(({ msg }) => msg === 'a process is killed'),
    [{ process: 1, why: 'it does not answer' }],
  )
  t.match(
    all.logged.filter(({ msg }) => msg === 'a process ended'),
    [{ process: 1, signal: 'SIGKILL' }],
  )
})

t.test('a process that hangs does not keep the program from ending', SLOW, async (t) => {
  const all = await start(t, '')
  kill(all.pids()[0], 'SIGSTOP')
  all.child.kill('SIGTERM')
  t.strictSame(await all.exited, [1, null], 'not as it was told')
  t.match(
    all.logged.filter(({ msg, process }) => msg === 'a process ended' && process === 1),
    [{ signal: 'SIGKILL', level: 'error' }],
  )
})

t.test('a process that fails while it ends is seen in the status of the program', SLOW, async (t) => {
  const all = await start(t, 'unclean')
  kill(all.pids()[0], 'SIGUSR1')
  all.child.kill('SIGTERM')
  t.strictSame(await all.exited, [1, null])
  t.match(
    all.logged.filter(({ msg, process }) => msg === 'a process ended' && process === 1),
    [{ code: 7, level: 'error' }],
  )
})

t.test('a process that cannot start again leaves a healthy one alone', SLOW, async (t) => {
  const all = await start(t, 'ending')
  await all.toggle()
  const [dead, other = 0] = all.pids()
  kill(dead, 'SIGKILL')
  await all.says('a process ended', 7)
  t.ok(isRunning(other), 'after more deaths than it gives up at')
  t.equal(await all.status('/readyz'), 200)
  t.equal(await all.status('/livez'), 200)
  kill(other, 'SIGKILL')
  t.strictSame(await all.exited, [1, null], 'none listens')
  t.ok(all.logged.some(({ reason }) => reason === 'processes end again and again'))
})

t.test('a process that the machine cannot start is tried again', SLOW, async (t) => {
  const all = await start(t, 'no-spawn')
  await all.toggle()
  kill(all.pids()[0], 'SIGKILL')
  await all.says('a process ended', 3)
  await all.toggle()
  await all.says('all processes listen', 2)
  await all.toggle()
  kill(all.pids()[0], 'SIGKILL')
  await all.says('a process ended', 5)
  all.child.kill('SIGTERM')
  t.strictSame(await all.exited, [0, null], 'it waits for none that there is not')
})

t.test('a process that does not begin is replaced, and the replica is ready meanwhile', SLOW, async (t) => {
  const all = await start(t, 'mute')
  await all.toggle()
  kill(all.pids()[0], 'SIGKILL')
  await all.says('mute')
  t.equal(await all.status('/readyz'), 200)
  t.equal(await all.status('/livez'), 200)
  await all.toggle()
  await all.says('all processes listen', 2)
  t.match(
    all.logged.filter(({ msg }) => msg === 'a process is killed'),
    [{ process: 1, why: 'it has not begun to answer' }],
  )
})
