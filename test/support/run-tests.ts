import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Skip } from './not-tested.ts'
import { type Counts, type Ended, type FileResult, readTap } from './tap-output.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const TOOLS = join(ROOT, 'node_modules/.bin')
const QUICK_IMPORTS = pathToFileURL(join(import.meta.dirname, 'quick-imports.ts')).href

export interface RunOptions {
  /** How many files run at once. */
  jobs: number
  /** Seconds after which a file has failed, unless it asks for more by `t.setTimeout`. */
  timeout?: number
  env?: Record<string, string>
  /** Put in front of each command, such as a way into a network namespace. */
  enter?: readonly string[]
}

export interface Ran extends Counts {
  /** Seconds that each file took. */
  seconds: Record<string, number>
  /** Seconds of CPU of each file and of the processes that it waited for. Linux only. */
  cpu: Record<string, number>
  skips: Skip[]
}

/** The files that run now. */
const running = new Set<ChildProcess>()
let over = false

/**
 * Runs test files, each as a plain `node FILE` whose standard output is TAP, in the given order, and shows what a
 * reader wants: one line a file, and everything about a failure. `tap run` would do the same, but it sorts the files by
 * name and puts a loader in front of every process, also those that the tests start: 0.6 s of CPU each.
 */
export async function runTests(files: readonly string[], o: RunOptions): Promise<Ran> {
  const totals: Ran = { passed: 0, failed: 0, skipped: 0, seconds: {}, cpu: {}, skips: [] }
  const failures: string[] = []
  const waiting = [...files]
  let done = 0
  const report = (file: string, { cpu, ...result }: FileRun, seconds: number) => {
    for (const name of ['passed', 'failed', 'skipped'] as const) totals[name] += result[name]
    totals.seconds[file] = seconds
    totals.cpu[file] = cpu
    totals.skips.push(...result.reasons.map((why) => ({ file, why })))
    failures.push(...result.failures.map((failure) => `not ok - ${file}: ${failure}`))
    for (const line of result.shown) console.log(line)
    done += 1
    console.log(
      `${result.failed > 0 ? 'not ok' : 'ok'} ${done} - ${file} # time=${seconds.toFixed(1)}s cpu=${cpu.toFixed(1)}s`,
    )
  }
  const next = async () => {
    for (let file = waiting.shift(); file !== undefined && !over; file = waiting.shift()) {
      const start = performance.now()
      const result = await runFile(file, o)
      report(file, result, (performance.now() - start) / 1000)
    }
  }
  await Promise.all(Array.from({ length: o.jobs }, next))
  if (failures.length > 0) console.log(`\nWhat failed:\n${failures.join('\n')}`)
  return totals
}

type FileRun = FileResult & { cpu: number }

async function runFile(file: string, o: RunOptions): Promise<FileRun> {
  const timeout = o.timeout ?? 600
  const [command = '', ...args] = [...(o.enter ?? []), 'node', file]
  const child = spawn(command, args, {
    cwd: ROOT,
    env: environment(o, timeout),
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    // A group of its own, so that a signal reaches the processes that the file has started too.
    detached: true,
  })
  running.add(child)
  const patience = deadline(child, timeout)
  let output = ''
  let errors = ''
  let cpu = 0
  // What `t.setTimeout` of a file says, in milliseconds.
  child.on('message', (message: { setTimeout?: unknown }) => {
    if (typeof message?.setTimeout === 'number') patience.extend(message.setTimeout / 1000)
  })
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    output += chunk
  })
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    process.stderr.write(chunk)
    errors += chunk
  })
  const ended = await new Promise<Ended>((resolve) => {
    child.once('exit', () => {
      cpu = cpuOfEnded()
    })
    child.once('error', (error) => resolve({ code: null, signal: null, errors: `Error: ${error.message}` }))
    child.once('close', (code, signal) => resolve({ code, signal, errors }))
  })
  patience.end()
  running.delete(child)
  return { ...readTap(output, ended), cpu }
}

let counted = 0
/** Seconds of CPU of the children that have ended since it was last called: the kernel counts them when they end. */
export function cpuOfEnded(): number {
  if (process.platform !== 'linux') return 0
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1]?.split(' ') ?? []
  // cutime and cstime in proc_pid_stat(5), in ticks of a hundredth of a second.
  const now = (Number(fields[13]) + Number(fields[14])) / 100
  const since = now - counted
  counted = now
  return since
}

const environment = (o: RunOptions, timeout: number): NodeJS.ProcessEnv => ({
  ...process.env,
  // Every process of the tests loads the same modules: compiled once, they load in two thirds of the time.
  ...(!process.env['NODE_V8_COVERAGE'] && { NODE_COMPILE_CACHE: join(ROOT, '.tap/compile-cache') }),
  NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --import ${QUICK_IMPORTS}`,
  ...o.env,
  TAP: '1',
  TAP_TIMEOUT: String(timeout),
  PATH: `${TOOLS}${delimiter}${o.env?.['PATH'] ?? process.env['PATH'] ?? ''}`,
})

/** tap ends a test that takes too long and says what it waits for; this is for a process that cannot do that any more. */
function deadline(child: ChildProcess, seconds: number) {
  const set = (after: number) => setTimeout(() => signalGroup(child, 'SIGKILL'), (after + 30) * 1000)
  let timer = set(seconds)
  const end = () => clearTimeout(timer)
  const extend = (after: number) => {
    end()
    timer = set(after)
  }
  return { extend, end }
}

/** Ends the files that run, and whatever they have started; no further file begins. */
export async function endTests(signal: NodeJS.Signals): Promise<void> {
  over = true
  await Promise.all([...running].map((child) => endGroup(child, signal)))
}

/** Ends a process that was started `detached`, and its children. */
export async function endGroup(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
  const ended = new Promise((resolve) => child.once('close', resolve))
  signalGroup(child, signal)
  const patience = setTimeout(signalGroup, 5000, child, 'SIGKILL')
  await ended
  clearTimeout(patience)
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
