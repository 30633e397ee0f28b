import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { delimiter, join, resolve } from 'node:path'
import type { Writable } from 'node:stream'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Skip } from './not-tested.ts'
import { cpuOfChildren } from './process-state.ts'
import type { FileEnd } from './shared-process.ts'
import { type Counts, type Ended, type FileResult, readTap } from './tap-output.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const TOOLS = join(ROOT, 'node_modules/.bin')
const SHARED_PROCESS = join(import.meta.dirname, 'shared-process.ts')
const QUICK_IMPORTS = pathToFileURL(join(import.meta.dirname, 'quick-imports.ts')).href

export interface RunOptions {
  /** How many files run at once. */
  jobs: number
  /** Seconds after which a file has failed, unless it asks for more by `t.setTimeout`. */
  timeout?: number
  env?: Record<string, string>
  /** Put in front of each command, such as a way into a network namespace. */
  enter?: readonly string[]
  /** Files run one after another in one process for each job (shared-process.ts), but for those that say otherwise. */
  share?: boolean
}

export interface Ran extends Counts {
  /** Seconds that each file took. */
  seconds: Record<string, number>
  /** Seconds of CPU of each file and of the processes that it waited for. Linux only. */
  cpu: Record<string, number>
  /** Of all of them, and of what starts and ends the processes that they share. */
  totalCpu: number
  skips: Skip[]
}

/** The processes of files that run now. */
const running = new Set<ChildProcess>()
let over = false

/**
 * Runs test files, each as a plain `node FILE` whose standard output is TAP, or several in one process, in the given
 * order, and shows what a reader wants: one line a file, and everything about a failure. `tap run` would do the same, but it sorts the files by
 * name and puts a loader in front of every process, also those that the tests start: 0.6 s of CPU each.
 */
export async function runTests(files: readonly string[], o: RunOptions): Promise<Ran> {
  const totals: Ran = { passed: 0, failed: 0, skipped: 0, seconds: {}, cpu: {}, totalCpu: 0, skips: [] }
  const failures: string[] = []
  const waiting = await queues(files, o)
  const cpuBefore = cpuOfChildren()
  let done = 0
  const fail = (file: string, failure: string) => void failures.push(`not ok - ${file}: ${failure}`)
  const report = (file: string, { cpu, late, ...result }: FileRun, seconds: number) => {
    for (const name of ['passed', 'failed', 'skipped'] as const) totals[name] += result[name]
    totals.seconds[file] = seconds
    totals.cpu[file] = cpu
    totals.skips.push(...result.reasons.map((why) => ({ file, why })))
    for (const failure of result.failures) fail(file, failure)
    for (const line of result.shown) console.log(line)
    done += 1
    console.log(
      `${result.failed > 0 ? 'not ok' : 'ok'} ${done} - ${file} # time=${seconds.toFixed(1)}s cpu=${cpu.toFixed(1)}s`,
    )
    for (const { file: earlier, error } of late) {
      totals.failed += 1
      const failure = `threw after its end, while ${file} ran: ${error}`
      fail(earlier, failure)
      console.log(`not ok - ${earlier} ${failure}`)
    }
  }
  const next = async (job: number) => {
    // Half of the jobs begin with the files that have processes of their own. Those with browsers cost the more CPU the
    // longer they wait for each other, so not all of them run at once.
    const order = job % 2 === 0 ? [waiting.own, waiting.sharing] : [waiting.sharing, waiting.own]
    const processes = oneAfterAnother(o)
    for (let file = take(order); file !== undefined && !over; file = take(order)) {
      const start = performance.now()
      const result = await processes.run(file)
      report(file.name, result, (performance.now() - start) / 1000)
    }
    await processes.end()
  }
  await Promise.all(Array.from({ length: o.jobs }, (_, job) => next(job)))
  totals.totalCpu = cpuOfChildren() - cpuBefore
  if (failures.length > 0) console.log(`\nWhat failed:\n${failures.join('\n')}`)
  return totals
}

interface TestFile {
  name: string
  isShared: boolean
}

async function queues(files: readonly string[], { share }: RunOptions) {
  const asked: TestFile[] = await Promise.all(
    files.map(async (name) => ({ name, isShared: share === true && (await ownProcess(name)) === undefined })),
  )
  return { own: asked.filter((file) => !file.isShared), sharing: asked.filter((file) => file.isShared) }
}

const take = (queues: TestFile[][]) => queues.find((files) => files.length > 0)?.shift()

/** One process after another: as many files as can share one, or one file. */
function oneAfterAnother(o: RunOptions) {
  let shared: SharedProcess | undefined
  const end = async () => {
    await shared?.end()
    shared = undefined
  }
  const run = async ({ name, isShared }: TestFile): Promise<FileRun> => {
    if (!isShared || shared?.isLast) await end()
    if (!isShared) return runFile(name, o)
    shared ??= new SharedProcess(o)
    return shared.run(name)
  }
  return { run, end }
}

/** Why a file must not share its process with others: a line of it says so. */
async function ownProcess(file: string): Promise<string | undefined> {
  return /^\/\/ A process of its own: (.+)$/m.exec(await readFile(resolve(ROOT, file), 'utf8').catch(() => ''))?.[1]
}

interface Marked {
  /** What the file has written. */
  output: string
  end: FileEnd
}

type FileRun = FileResult & { cpu: number; late: FileEnd['late'] }

/** A process, and what it writes until it ends. */
class TestProcess {
  readonly child: ChildProcess
  readonly ended: Promise<Ended>
  output = ''
  errors = ''
  #patience: ReturnType<typeof deadline>
  readonly #timeout: number

  constructor(command: readonly string[], o: RunOptions, stdio: 'pipe'[] = []) {
    this.#timeout = o.timeout ?? 600
    const [program = '', ...args] = [...(o.enter ?? []), ...command]
    this.child = spawn(program, args, {
      cwd: ROOT,
      env: environment(o, this.#timeout),
      stdio: ['ignore', 'pipe', 'pipe', 'ipc', ...stdio],
      // A group of its own, so that a signal reaches the processes that the file has started too.
      detached: true,
    })
    running.add(this.child)
    this.#patience = deadline(this.child, this.#timeout)
    // What `t.setTimeout` of a file says, in milliseconds.
    this.child.on('message', (message: { setTimeout?: unknown }) => {
      if (typeof message?.setTimeout === 'number') this.#patience.extend(message.setTimeout / 1000)
    })
    this.child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
      this.output += chunk
      this.heard()
    })
    this.child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
      process.stderr.write(chunk)
      this.errors += chunk
    })
    this.ended = new Promise<Ended>((resolve) => {
      const end = (how: Omit<Ended, 'errors'>, errors: string) => {
        this.#patience.end()
        running.delete(this.child)
        resolve({ ...how, errors })
      }
      this.child.once('error', (error) => end({ code: null, signal: null }, `Error: ${error.message}`))
      this.child.once('close', (code, signal) => end({ code, signal }, this.errors))
    })
  }

  /** The time of the file begins now. */
  restart(): void {
    this.#patience.extend(this.#timeout)
  }

  heard(): void {}
}

async function runFile(file: string, o: RunOptions): Promise<FileRun> {
  const its = new TestProcess(['node', file], o)
  let cpu = 0
  its.child.once('exit', () => {
    cpu = cpuOfEnded()
  })
  const ended = await its.ended
  return { ...readTap(its.output, ended), cpu, late: [] }
}

/** Runs files one after another; whatever happens to it happens to the file that it runs. */
class SharedProcess extends TestProcess {
  readonly #mark: string
  /** The files that it has run. */
  readonly #before: string[] = []
  #atEnd: ((file: Marked) => void) | undefined
  /** It ends, or has ended: the next file needs another one. */
  isLast = false

  constructor(o: RunOptions) {
    const mark = `# ${randomUUID()} `
    super(['node', SHARED_PROCESS, mark], o, ['pipe'])
    this.#mark = mark
    // Of a process that has ended.
    this.#files.on('error', () => {})
    // The CPU of its files has been counted.
    this.child.once('exit', cpuOfEnded)
  }

  get #files(): Writable {
    return this.child.stdio[4] as Writable
  }

  override heard(): void {
    const at = this.output.indexOf(`\n${this.#mark}`)
    const end = this.output.indexOf('\n', at + 1)
    if (at < 0 || end < 0) return
    const text = this.output.slice(at + 1 + this.#mark.length, end)
    const output = this.output.slice(0, at)
    this.output = this.output.slice(end + 1)
    this.#atEnd?.({ output, end: JSON.parse(text) as FileEnd })
  }

  async run(file: string): Promise<FileRun> {
    this.errors = ''
    this.restart()
    const marked = new Promise<Marked>((resolve) => {
      this.#atEnd = resolve
    })
    this.#files.write(`${resolve(ROOT, file)}\n`)
    const happened = await Promise.race([marked, this.ended])
    if (!('end' in happened)) {
      this.isLast = true
      return this.#about(file, { ...readTap(this.output, happened), cpu: 0, late: [] })
    }
    const { output, end } = happened
    const { code, cpu, problems, late, isLast } = end
    this.isLast = isLast
    const result = readTap(output, { code, signal: null, errors: this.errors })
    const asked = 'it has to put that back, or to say `// A process of its own: WHY`'
    const lines = problems.map((problem) => `${problem}; ${asked}`)
    result.failed += lines.length
    result.failures.push(...lines)
    result.shown.push(...lines.map((line) => `not ok - ${line}`))
    return this.#about(file, { ...result, cpu, late })
  }

  /** A failure may be of this company alone. */
  #about(file: string, result: FileRun): FileRun {
    if (result.failed > 0 && this.#before.length > 0)
      result.shown.push(`# ran in one process after: ${this.#before.join(' ')}`)
    this.#before.push(file)
    return result
  }

  /** No other file: it ends by itself. */
  async end(): Promise<void> {
    this.#files.end()
    await this.ended
  }
}

let counted = 0
/** Seconds of CPU of the children that have ended since it was last called. */
export function cpuOfEnded(): number {
  const now = cpuOfChildren()
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
