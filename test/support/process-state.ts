import dns from 'node:dns'
import { EventEmitter } from 'node:events'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import net from 'node:net'

/** What one test file can change for the next in the same process, by the name under which a reader knows it. */
export type ProcessState = Map<string, unknown>

/** The functions of these are compared one by one: tests put clocks and spies there. */
const OBJECTS: Record<string, object> = {
  console,
  process,
  performance,
  Date,
  Math,
  JSON,
  Promise,
  Object,
  Error,
  http,
  https,
  'Array.prototype': Array.prototype,
  'Date.prototype': Date.prototype,
  'EventEmitter.prototype': EventEmitter.prototype,
  'Object.prototype': Object.prototype,
  'Promise.prototype': Promise.prototype,
  'String.prototype': String.prototype,
}

/** What libraries do once, when they are loaded or first used. */
const NOT_OF_TESTS = new Set([
  // How tap and signal-exit hear of the end of a process.
  'process.emit',
  'process.reallyExit',
  // sharp
  'process.env.VIPSHOME',
  // graceful-fs, of playwright
  'process.chdir',
  'process.cwd',
  'globalThis.Symbol(graceful-fs.queue)',
])

/** Node sets some globals when they are first read, which is no change by a test. */
export function readGlobals(): void {
  for (const key of Reflect.ownKeys(globalThis)) Reflect.get(globalThis, key)
}

/** Everything that holds for the whole process: what a file changes here, it has to put back. */
export function processState(): ProcessState {
  const state: ProcessState = new Map<string, unknown>([
    ['the working directory', process.cwd()],
    ['the umask', process.umask()],
    ['process.title', process.title],
    ['the limits of the process', limits()],
    ['Error.stackTraceLimit', Error.stackTraceLimit],
    ['EventEmitter.defaultMaxListeners', EventEmitter.defaultMaxListeners],
    ['http.globalAgent', http.globalAgent],
    ['https.globalAgent', https.globalAgent],
    ['the order of addresses', dns.getDefaultResultOrder()],
    ['the choice of the address family', net.getDefaultAutoSelectFamily()],
    ['the capture callback', process.hasUncaughtExceptionCaptureCallback()],
  ])
  for (const [name, value] of Object.entries(process.env)) state.set(`process.env.${name}`, value)
  for (const key of Reflect.ownKeys(globalThis)) {
    // The agent of fetch, which it makes when it is first called.
    if (typeof key === 'symbol' && key.description?.startsWith('undici.')) continue
    state.set(`globalThis.${String(key)}`, Reflect.get(globalThis, key))
  }
  for (const [of, object] of Object.entries(OBJECTS)) {
    for (const [key, { value }] of Object.entries(Object.getOwnPropertyDescriptors(object))) {
      if (typeof value === 'function') state.set(`${of}.${key}`, value)
    }
  }
  return state
}

function limits(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8')
  } catch {
    return ''
  }
}

/** What is not as it was. */
export function changes(before: ProcessState, after: ProcessState): string[] {
  const names = new Set([...before.keys(), ...after.keys()])
  return [...names].filter((name) => !NOT_OF_TESTS.has(name) && !Object.is(before.get(name), after.get(name)))
}

export type Listeners = Map<string | symbol, Set<unknown>>

export const processListeners = (): Listeners =>
  new Map(process.eventNames().map((name) => [name, new Set(process.rawListeners(name as 'exit'))]))

/** A library that pino uses listens while there are logs, of which it holds no more than weak references. */
const ofLogs = (listener: unknown) => String(listener).includes('callRefs(')

/** The listeners that `after` has, and `before` does not. */
export const addedListeners = (before: Listeners, after: Listeners): [string | symbol, unknown][] =>
  [...after].flatMap(([name, all]) =>
    [...all]
      .filter((one) => !before.get(name)?.has(one) && !ofLogs(one))
      .map((one): [string | symbol, unknown] => [name, one]),
  )

/** Processes that this one has started and that still run. */
export function children(): number[] {
  try {
    return readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
  } catch {
    return []
  }
}

/** Seconds of CPU of this process, and of the processes that it has waited for. */
export function cpuSeconds(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6 + cpuOfChildren()
}

/** The kernel counts it when they end. Linux only. */
export function cpuOfChildren(): number {
  if (process.platform !== 'linux') return 0
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1]?.split(' ') ?? []
  // cutime and cstime in proc_pid_stat(5), in ticks of a hundredth of a second.
  return (Number(fields[13]) + Number(fields[14])) / 100
}
