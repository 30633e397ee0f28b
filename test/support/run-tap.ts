import { type ChildProcess, spawn } from 'node:child_process'
import { delimiter } from 'node:path'
import { fileURLToPath } from 'node:url'

const TOOLS = fileURLToPath(new URL('../../node_modules/.bin', import.meta.url))

export interface Counts {
  passed: number
  failed: number
  skipped: number
}

export interface TapOptions {
  jobs: number
  /** Seconds that a file may take. */
  timeout?: number
  env?: Record<string, string>
  /** Put in front of tap, such as a way into a network namespace. */
  enter?: readonly string[]
  /** Is told of the process, so that somebody can end it. */
  onStart?: (tap: ChildProcess) => void
}

/** Runs test files with tap and shows what a reader wants: one line a file, and everything about a failure. */
export async function runTap(files: readonly string[], o: TapOptions): Promise<Counts & { code: number }> {
  const timeout = o.timeout ? [`--timeout=${o.timeout}`] : []
  const tap = ['tap', 'run', '--disable-coverage', '--reporter=tap', `--jobs=${o.jobs}`, ...timeout, ...files]
  const [command = '', ...args] = [...(o.enter ?? []), ...tap]
  const PATH = `${TOOLS}${delimiter}${o.env?.['PATH'] ?? process.env['PATH'] ?? ''}`
  // A group of its own, so that endTap() reaches the test files too.
  const child = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...o.env, PATH },
    detached: true,
  })
  o.onStart?.(child)
  const ended = new Promise<number>((resolve, reject) => {
    child.once('error', reject).once('close', (status) => resolve(status ?? 1))
  })

  const output = tapOutput()
  let rest = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) output.read(line)
  })
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    process.stderr.write(chunk)
    output.readError(chunk)
  })
  const code = await ended
  if (code !== 0 && output.counts.failed === 0) output.counts.failed = 1
  if (output.failures.length > 0) console.log(`\nWhat failed:\n${output.failures.join('\n')}`)
  return { ...output.counts, code }
}

/** Ends tap and the files that it runs; tap alone would wait for them. */
export async function endTap(tap: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (tap.exitCode !== null || tap.signalCode !== null || tap.pid === undefined) return
  const ended = new Promise((resolve) => tap.once('close', resolve))
  signalGroup(tap.pid, signal)
  const patience = setTimeout(signalGroup, 5000, tap.pid, 'SIGKILL')
  await ended
  clearTimeout(patience)
}

function signalGroup(leader: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-leader, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** The line that CI reads; the last of a run. */
export const summary = ({ passed, failed, skipped }: Counts) => `${passed} passed, ${failed} failed, ${skipped} skipped`

interface Failure {
  name: string
  /** The lines that tap wrote below it. */
  about: string[]
}

/** Counts assertions while it shows the lines that matter. */
function tapOutput() {
  const counts: Counts = { passed: 0, failed: 0, skipped: 0 }
  const failures: string[] = []
  /** Of the file that is being read. */
  let pending: Failure[] = []
  let lastError = ''
  let failing = false

  const count = (line: string, isFile: boolean, failed: boolean, name: string) => {
    failing = failed
    // A line that closes a subtest repeats the verdict of the lines inside it; only leaves and files are counted.
    const isLeaf = !/# time=/.test(name)
    if (/# (skip|todo)/i.test(name)) counts.skipped += 1
    else if (isLeaf) counts[failed ? 'failed' : 'passed'] += 1
    if (failed && isLeaf) pending.push({ name, about: [] })
    if (isFile || failed || /# skip/i.test(name)) console.log(line.trim())
    if (isFile) closeFile(name, failed)
  }
  const closeFile = (name: string, failed: boolean) => {
    // One that never came to a test has written why on standard error.
    if (failed && pending.length === 0) {
      counts.failed += 1
      pending.push({ name: 'ended without a failed test', about: [lastError] })
    }
    failures.push(...pending.map((failure) => `not ok - ${name.replace(/ *# time=.*/, '')}: ${inOneLine(failure)}`))
    pending = []
  }
  const read = (line: string) => {
    const test = /^( *)(not )?ok \d+ - (.*)$/.exec(line)
    if (test) return count(line, test[1] === '', Boolean(test[2]), test[3] ?? '')
    if (!failing) return
    console.log(line)
    pending.at(-1)?.about.push(line)
  }
  const readError = (chunk: string) => {
    lastError = chunk.split('\n').findLast((line) => /^\w*Error\b/.test(line)) ?? lastError
  }
  return { counts, failures, read, readError }
}

/** To be found, and understood, where a log was cut: without the source that tap quotes. */
function inOneLine({ name, about }: Failure): string {
  const lines = about.map((text) => text.trim())
  const end = lines.findIndex((line) => line === 'source: |' || line === 'source: >')
  const said = lines.slice(0, end < 0 ? undefined : end).filter((line) => !/^(---|\.\.\.|)$/.test(line))
  return `${name}: ${said.join(' ').slice(0, 800)}`
}
