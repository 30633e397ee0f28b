import { AsyncLocalStorage } from 'node:async_hooks'
import { readFileSync, readSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { pathToFileURL } from 'node:url'
// These two leave traces in the process when they are first imported, for which no file is to be blamed.
import 'zod'
import '../../lib/runtime/log.ts'
import {
  addedListeners,
  changes,
  children,
  cpuSeconds,
  processListeners,
  processState,
  readGlobals,
} from './process-state.ts'
import { whenLost } from './quick-domain.ts'

/**
 * A process that runs test files one after another, as run-tests.ts names them on file descriptor 4. Half of a short
 * file is the start of node, tap and the API, and here only the first file pays for it. What a file writes is what it
 * would write in a process of its own: it gets a tap of its own, and the next file begins where a process would end,
 * when nothing is left that the event loop waits for. After each file the process is compared with what it was before;
 * a file that has changed it has failed, and this process ends, as it does after any failure.
 */
const MARK = process.argv[2] ?? ''
/** What this process writes behind the output of a file, after MARK. */
export interface FileEnd {
  code: number
  cpu: number
  /** Why the file has failed, besides what its output says. */
  problems: string[]
  /** Files before this one, of which something was thrown only now. */
  late: { file: string; error: string }[]
  /** This process runs no other file. */
  isLast: boolean
}

const TAP_ITSELF = new Set(['tap', import.meta.resolve('tap')])
/** The part of tap that writes the output; not a dependency of ours, but of the tap that is installed. */
const CORE_PACKAGE = '@tapjs/core'
const CORE = import.meta.resolve(CORE_PACKAGE)
const TAP = new URL('tap.js', CORE).href
/** Where tap keeps its one instance. */
const INSTANCE = Symbol.for('TAP private constructor')
const globals = globalThis as typeof globalThis & Record<symbol, unknown>

interface Tap {
  results?: { ok: boolean }
  register(): void
  endAll(): void
  hookDomain: { destroy(): void }
  timer?: NodeJS.Timeout
}

interface Running {
  file: string
  url: string
  tap: Tap | undefined
  isImported: boolean
  /** How often nothing was left to wait for. */
  turns: number
  state: ReturnType<typeof processState>
  listeners: ReturnType<typeof processListeners>
  /** Of tap itself. */
  tapListeners: [string | symbol, unknown][]
}

const fileOf = new AsyncLocalStorage<string>()
const outside = AsyncLocalStorage.snapshot()
let running: Running | undefined
let cpu = 0
let count = 0
let isOver = false
/** Since the last file ended. */
let late: FileEnd['late'] = []

registerHooks({
  resolve(specifier, context, next) {
    if (!TAP_ITSELF.has(specifier) || !running) return next(specifier, context)
    // Whatever else would import it keeps the tap of the first file, and loses its tests in the next.
    if (context.parentURL !== running.url)
      throw new Error(`${context.parentURL} imports tap; only the test file itself can, and hands it over as \`t\``)
    return { url: `keepsake-tap:${count}`, format: 'module', shortCircuit: true }
  },
  load(url, context, next) {
    if (!url.startsWith('keepsake-tap:')) return next(url, context)
    const source = `export default globalThis[Symbol.for('${INSTANCE.description}')]`
    return { source, format: 'module', shortCircuit: true }
  },
})

/** What an earlier file has left behind, in a timer that does not keep the process alive for example, is not of this one. */
whenLost((error) => {
  const file = fileOf.getStore()
  if (!file || file === running?.file) return false
  console.error(error)
  late.push({ file, error: String(error) })
  return true
})

/** Waits without a turn of the event loop: nothing of the file before runs any more. */
function nextFile(): string | undefined {
  const bytes: number[] = []
  const one = Buffer.alloc(1)
  while (readSync(4, one, 0, 1, null) === 1) {
    if (one[0] === 10) return Buffer.from(bytes).toString()
    bytes.push(one[0] as number)
  }
  return undefined
}

function begin(): void {
  const file = nextFile()
  if (file === undefined) {
    isOver = true
    return
  }
  count += 1
  const now: Running = {
    file,
    url: pathToFileURL(file).href,
    tap: undefined,
    isImported: false,
    turns: 0,
    state: processState(),
    listeners: processListeners(),
    tapListeners: [],
  }
  running = now
  outside(() => fileOf.run(file, run, now))
}

function run(now: Running): void {
  void (async () => {
    now.tap = await freshTap(now)
    await import(now.url)
  })().then(
    () => {
      now.isImported = true
    },
    (error: unknown) => {
      now.isImported = true
      // As what a program throws at its top level: tap takes it for the file.
      process.nextTick(() => {
        throw error
      })
    },
  )
}

/** The module of tap keeps what it knows of its process in variables, so each file gets the module anew. */
async function freshTap(now: Running): Promise<Tap> {
  delete globals[INSTANCE]
  const { tap } = (await import(`${TAP}?${count}`)) as { tap(): Tap }
  const made = tap()
  const register = made.register.bind(made)
  made.register = () => {
    const before = processListeners()
    register()
    now.tapListeners.push(...addedListeners(before, processListeners()))
  }
  return made
}

/** Where a process of its own would end. Listens before tap does, which ends its tests here. */
process.on('beforeExit', () => {
  if (isOver) return
  if (!running) return begin()
  const isDone = running.isImported && (running.tap?.results !== undefined || running.tapListeners.length === 0)
  if (isDone || running.turns >= 2) return finish(running)
  running.turns += 1
  setImmediate(() => {})
})

function finish(now: Running): void {
  // What tap does when a process ends.
  if (now.tapListeners.length > 0 && now.tap?.results === undefined) now.tap?.endAll()
  // The status of node for an await that never ends.
  const code = Number(process.exitCode ?? (now.isImported ? 0 : 13))
  const problems = problemsOf(now)
  isOver = code !== 0 || problems.length > 0 || late.length > 0
  const before = cpu
  cpu = cpuSeconds()
  const end: FileEnd = { code, cpu: cpu - before, problems, late, isLast: isOver }
  running = undefined
  late = []
  process.stdout.write(`\n${MARK}${JSON.stringify(end)}\n`)
  // Something to wait for, so that beforeExit comes again.
  if (!isOver) setImmediate(() => {})
}

function problemsOf(now: Running): string[] {
  // It would end the file that runs when it is due.
  clearTimeout(now.tap?.timer)
  // A tap without any test has not begun, and so does not end.
  if (now.tapListeners.length === 0) now.tap?.hookDomain.destroy()
  for (const [name, listener] of now.tapListeners) {
    // Those for signals are there once for all files.
    if (!/^SIG/.test(String(name))) process.off(name as 'exit', listener as () => void)
  }
  delete globals[INSTANCE]
  const ofTap = new Set(now.tapListeners.map(([, listener]) => listener))
  const left = addedListeners(now.listeners, processListeners()).filter(([, listener]) => !ofTap.has(listener))
  return [
    ...changes(now.state, processState()).map((what) => `changed ${what}`),
    ...left.map(([name, listener]) => `left a listener for ${String(name)} of the process: ${inShort(listener)}`),
    ...children().map((pid) => `left the process ${pid}: ${commandOf(pid)}`),
  ]
}

const inShort = (listener: unknown) => String(listener).replace(/\s+/g, ' ').slice(0, 100)

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim().slice(0, 200)
  } catch {
    return 'it has ended'
  }
}

// Before tap.js, which it imports in a circle.
await import(CORE)
// What tap itself does to the environment for the sake of TypeScript.
process.env['TS_NODE_TRANSPILE_ONLY'] = '1'
readGlobals()
process.channel?.unref()
begin()
