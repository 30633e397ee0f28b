import cluster, { type Worker } from 'node:cluster'
import { getHeapStatistics } from 'node:v8'
import type { Log } from '../../lib/runtime/log.ts'
import type { MetricsOf } from '../health/metrics.ts'
import { openChannel } from './channel.ts'
import { waitAfter } from './plan.ts'

export interface Supervised {
  /** Throws unless each process that listens answers. */
  alive(): Promise<void>
  /** Throws unless all processes listen and are ready. */
  ready(): Promise<void>
  /** Of the processes that answer. */
  metrics(): Promise<MetricsOf[]>
  /** Sends SIGTERM to all, and waits until they have ended. */
  stop(): Promise<void>
}

interface SuperviseOptions {
  count: number
  log: Log
  /** Called once, when processes die again and again, or one ends before all have listened for the first time. */
  onGivenUp(why: string): void
  /** Of processes that died. */
  onDied(): void
}

interface Slot {
  number: number
  worker: Worker
  ask: ReturnType<typeof openChannel>
  isListening: boolean
}

/** More than a check of readiness takes at most, which is three seconds. */
const ANSWER_MS = 3500

/**
 * Starts so many processes of this program and replaces each that dies. They share ports, because node:cluster accepts
 * connections here and deals them out. They end with this process: node:cluster ends one that has lost its channel.
 */
export function supervise(o: SuperviseOptions): Supervised {
  const slots = new Map<number, Slot>()
  const waits = new Set<NodeJS.Timeout>()
  const deaths: number[] = []
  let wasWhole = false
  let isStopping = false

  // Together they may take as much as one process of this machine or container.
  const heapMiB = Math.floor(getHeapStatistics().heap_size_limit / 2 ** 20 / o.count)
  cluster.setupPrimary({
    execArgv: [...process.execArgv, `--max-old-space-size=${heapMiB}`],
    // JSON would turn a value that is not a number into null.
    serialization: 'advanced',
  })

  const isWhole = () => slots.size === o.count && [...slots.values()].every((slot) => slot.isListening)
  const listening = () => [...slots.values()].filter((slot) => slot.isListening)

  async function alive(): Promise<void> {
    await Promise.all(listening().map((slot) => slot.ask('alive', ANSWER_MS)))
  }

  async function ready(): Promise<void> {
    if (!isWhole()) throw new Error(`${listening().length} of ${o.count} processes listen`)
    await Promise.all(listening().map((slot) => slot.ask('ready', ANSWER_MS)))
  }

  async function metrics(): Promise<MetricsOf[]> {
    const answers = await Promise.allSettled(listening().map((slot) => slot.ask('metrics', ANSWER_MS)))
    return answers.flatMap((answer) => (answer.status === 'fulfilled' ? (answer.value as MetricsOf[]) : []))
  }

  function start(number: number): void {
    const worker = cluster.fork({ API_PROCESS: String(number) })
    const ask = openChannel(worker, { alive, ready, listening: async () => listens(slot) })
    const slot: Slot = { number, worker, ask, isListening: false }
    slots.set(number, slot)
    // Such as a write to a process that has just died: its end is heard below.
    worker.on('error', (error) => o.log.warn({ err: error, process: number }, 'could not talk to a process'))
    worker.once('exit', (code, signal) => ended(slot, code, signal))
  }

  function listens(slot: Slot): void {
    slot.isListening = true
    if (!isWhole()) return
    wasWhole = true
    o.log.info({ processes: o.count, heapMiB }, 'all processes listen')
  }

  function ended(slot: Slot, code: number, signal: string | null): void {
    slots.delete(slot.number)
    if (isStopping) return
    o.log.error({ process: slot.number, code, signal }, 'a process ended')
    o.onDied()
    deaths.push(performance.now())
    const wait = waitAfter(deaths, performance.now())
    if (!wasWhole) giveUp('a process ended before all were listening')
    else if (wait === undefined) giveUp('processes end again and again')
    else restart(slot.number, wait)
  }

  function restart(number: number, waitMs: number): void {
    const timer = setTimeout(() => {
      waits.delete(timer)
      start(number)
    }, waitMs)
    waits.add(timer)
  }

  function giveUp(why: string): void {
    isStopping = true
    o.onGivenUp(why)
  }

  async function stop(): Promise<void> {
    isStopping = true
    for (const wait of waits) clearTimeout(wait)
    await Promise.all([...slots.values()].map(({ worker }) => end(worker)))
  }

  for (let number = 1; number <= o.count; number++) start(number)
  return { alive, ready, metrics, stop }
}

async function end(worker: Worker): Promise<void> {
  const exit = new Promise((resolve) => void worker.once('exit', resolve))
  worker.process.kill('SIGTERM')
  await exit
}
