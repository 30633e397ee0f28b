import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import * as z from 'zod'
import { EXIT } from '../../lib/contract/job-result.ts'
import { loadConfig } from '../../lib/runtime/config.ts'
import { TransientError } from './failure.ts'

/** Limits that the kernel enforces. Without `prlimit` (outside Linux) only the time limit of `ToolRun` applies. */
export interface KernelLimits {
  /** Private memory. Pages of files do not count: the kernel can drop them. */
  memoryBytes: number
  cpuSeconds: number
  /** Size of each file that the tool writes. */
  fileBytes: number
}

export interface ToolRun {
  tool: 'ffmpeg' | 'ffprobe' | 'vips'
  args: readonly string[]
  signal: AbortSignal
  limitMs: number
  limits?: KernelLimits
  /** The working directory, so that arguments can be names instead of paths. */
  folder?: string
  variables?: Readonly<Record<string, string>>
  onStdoutLine: (line: string) => void
  onStderrLine: (line: string) => void
}

const SETPRIV = ['/usr/bin/setpriv', '/bin/setpriv'].find((path) => existsSync(path))
const PRLIMIT = ['/usr/bin/prlimit', '/bin/prlimit'].find((path) => existsSync(path))

/** Signals that a process brings upon itself: by a fault, or by exceeding a limit. */
const OWN_SIGNALS = new Set(['SIGABRT', 'SIGBUS', 'SIGFPE', 'SIGILL', 'SIGSEGV', 'SIGTRAP', 'SIGXCPU', 'SIGXFSZ'])

/** Signals of a fault in the program, such as a decoder that reads beyond its buffer. The others are limits and traps. */
const FAULTS = new Set(['SIGABRT', 'SIGBUS', 'SIGFPE', 'SIGILL', 'SIGSEGV'])

/** The tool crashed. The caller decides whether the input caused it. */
export class ToolCrashed extends TransientError {
  readonly by: string
  constructor(tool: string, by: string) {
    super(EXIT.transient, 'Killed', `${tool} crashed with ${by}`)
    this.by = by
  }
  get isFault(): boolean {
    return FAULTS.has(this.by)
  }
}

/** The job's environment holds its progress token, and outside a pod perhaps more: not for a decoder of uploads. */
const environment = () =>
  loadConfig(z.object({ PATH: z.string().default('/usr/bin:/bin'), LD_LIBRARY_PATH: z.string().optional() }))

/**
 * Runs a tool to completion and returns its exit code. Rejects with the signal's reason when aborted, and with a
 * TransientError when the tool ran too long, was killed from outside or did not start: the input causes none of these.
 */
export function runTool(run: ToolRun): Promise<number> {
  run.signal.throwIfAborted()
  const [command = run.tool, ...args] = [...wrappers(run), run.tool, ...run.args]
  const env = { ...environment(), ...run.variables }
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env, cwd: run.folder })
  const kill = () => child.kill('SIGKILL')
  const deadline = setTimeout(kill, run.limitMs)
  run.signal.addEventListener('abort', kill, { once: true })
  const outOfTime = performance.now() + run.limitMs
  splitLines(child.stdout, run.onStdoutLine)
  splitLines(child.stderr, run.onStderrLine)
  return new Promise<number>((resolve, reject) => {
    child.once('error', (error) => reject(missing(run.tool, error)))
    child.once('close', (code, killedBy) => {
      const trouble = troubleOf(run, code, killedBy, performance.now() >= outOfTime)
      if (trouble === undefined) resolve(code ?? 0)
      else reject(trouble)
    })
  }).finally(() => {
    clearTimeout(deadline)
    run.signal.removeEventListener('abort', kill)
  })
}

/** The programs that prepare the process and then become the tool. */
function wrappers({ limits }: ToolRun): string[] {
  // After kill -9 on the parent, an encoder would keep running for up to an hour; pdeathsig makes the kernel end it.
  const dying = SETPRIV ? [SETPRIV, '--pdeathsig', 'KILL', '--'] : []
  if (!limits || !PRLIMIT) return dying
  const { memoryBytes, cpuSeconds, fileBytes } = limits
  const limited = [`--data=${memoryBytes}`, `--cpu=${cpuSeconds}`, `--fsize=${fileBytes}`, '--core=0', '--']
  return [...dying, PRLIMIT, ...limited]
}

/** The cause of an end that says nothing about the input; undefined when the exit code is the tool's own. */
function troubleOf(run: ToolRun, code: number | null, killedBy: string | null, isLate: boolean): unknown {
  if (run.signal.aborted) return run.signal.reason
  if (killedBy !== null && OWN_SIGNALS.has(killedBy)) return new ToolCrashed(run.tool, killedBy)
  if (killedBy !== null || code === null) return isLate ? timeout(run) : killed(run.tool, killedBy)
  return SETPRIV && (code === 126 || code === 127) ? missing(run.tool) : undefined
}

const missing = (tool: string, cause?: Error) =>
  new TransientError(EXIT.transient, 'ToolMissing', `${tool} cannot be run on this machine`, { cause })
const timeout = (run: ToolRun) =>
  new TransientError(EXIT.transient, 'Timeout', `${run.tool} was stopped after ${Math.round(run.limitMs / 1000)} s`)
const killed = (tool: string, signal: string | null) =>
  new TransientError(
    EXIT.transient,
    'Killed',
    `${tool} was ended by ${signal ?? 'something'}, perhaps for lack of memory`,
  )

/** Characters. A longer line is cut, so that an endless one cannot exhaust the memory. */
export const MAX_LINE = 65_536

/** Calls back once per line. */
function splitLines(stream: NodeJS.ReadableStream, onLine: (line: string) => void): void {
  let rest = ''
  stream.setEncoding('utf8')
  stream.on('data', (chunk: string) => {
    const lines = (rest + chunk).split(/[\r\n]/)
    rest = (lines.pop() ?? '').slice(0, MAX_LINE)
    for (const line of lines) onLine(line)
  })
  stream.on('end', () => rest && onLine(rest))
}
