import cluster, { type Worker } from 'node:cluster'
import type { Log } from '../../lib/runtime/log.ts'
import type { MetricsOf } from '../health/metrics.ts'
import { openChannel } from './channel.ts'
import { hangs, isClean, type Patience, waitAfter } from './plan.ts'

export interface Supervised {
  /** Of the processes that answer. */
  metrics(): Promise<MetricsOf[]>
  /** How many serve the public port. */
  listening(): number
  /** Sends SIGTERM to all, and waits until they have ended. False when one did not end as it was told. */
  stop(): Promise<boolean>
}

interface SuperviseOptions {
  count: number
  /** Options of Node for each process. */
  execArgv: string[]
  patience: Patience
  log: Log
  /** Called once, when processes die again and again and none listens, or one ends before all have listened. */
  onGivenUp(why: string): void
  /** Of processes that died. */
  onDied(): void
}

interface Slot {
  number: number
  worker: Worker
  ask: ReturnType<typeof openChannel>
  startedAt: number
  hasBegun: boolean
  isListening: boolean
  /** Questions in a row that it has not answered. */
  missed: number
}

/** More than a check of readiness takes at most, which is three seconds. */
const ANSWER_MS = 3500

/**
 * Starts so many processes of this program and replaces each that dies or hangs. They share ports, because node:cluster
 * accepts connections here and deals them out. They end with this process: node:cluster ends one that has lost its
 * channel.
 */
export function supervise(o: SuperviseOptions): Supervised {
  const slots = new Map<number, Slot>()
  const waits = new Set<NodeJS.Timeout>()
  const deaths: number[] = []
  let wasWhole = false
  let isStopping = false
  let isEveryEndClean = true
  let onAllEnded = () => {}

  // JSON would turn a value that is not a number into null.
  cluster.setupPrimary({ execArgv: o.execArgv, serialization: 'advanced' })

  const begun = () => [...slots.values()].filter((slot) => slot.hasBegun)
  const listening = () => [...slots.values()].filter((slot) => slot.isListening)

  async function alive(): Promise<void> {
    const one = (slot: Slot) =>
      slot.ask('alive', ANSWER_MS).catch((error: unknown) => {
        if (slot.worker.isConnected()) throw error // one that has just died is being replaced
      })
    await Promise.all(begun().map(one))
  }

  async function ready(): Promise<void> {
    if (isStopping) throw new Error('the replica is stopping')
    const asked = listening()
    await Promise.any(asked.map((slot) => slot.ask('ready', ANSWER_MS))).catch((error: AggregateError) => {
      throw new Error(`of ${asked.length} processes that listen, none is ready`, { cause: error.errors[0] })
    })
  }

  async function metrics(): Promise<MetricsOf[]> {
    const answers = await Promise.allSettled(begun().map((slot) => slot.ask('metrics', ANSWER_MS)))
    return answers.flatMap((answer) => (answer.status === 'fulfilled' ? (answer.value as MetricsOf[]) : []))
  }

  function start(number: number): void {
    try {
      follow(number, cluster.fork({ API_PROCESS: String(number) }))
    } catch (error) {
      o.log.error({ err: error, process: number }, 'could not start a process')
      o.onDied()
      replace(number)
    }
  }

  function follow(number: number, worker: Worker): void {
    const ask = openChannel(worker, {
      alive,
      ready,
      begun: async () => {
        slot.hasBegun = true
      },
      listening: async () => listens(slot),
    })
    const startedAt = performance.now()
    const slot: Slot = { number, worker, ask, startedAt, hasBegun: false, isListening: false, missed: 0 }
    slots.set(number, slot)
    worker.on('error', (error) => {
      // Without a process there is no exit. Other errors are of writes to one that has just died: its end is heard below.
      if (worker.process.pid === undefined) ended(slot, { err: error }, false)
      else o.log.warn({ err: error, process: number }, 'could not talk to a process')
    })
    worker.once('exit', (code, signal) => ended(slot, { code, signal }, isClean(code, signal, slot.hasBegun)))
  }

  function listens(slot: Slot): void {
    slot.isListening = true
    if (listening().length < o.count) return
    wasWhole = true
    o.log.info({ processes: o.count }, 'all processes listen')
  }

  function ended(slot: Slot, how: object, wasClean: boolean): void {
    if (slots.get(slot.number) !== slot) return
    slots.delete(slot.number)
    if (slots.size === 0) onAllEnded()
    const isTold = isStopping && wasClean
    o.log[isTold ? 'info' : 'error']({ process: slot.number, ...how }, 'a process ended')
    if (isTold) return
    o.onDied()
    isEveryEndClean &&= !isStopping
    if (!isStopping) replace(slot.number)
  }

  function replace(number: number): void {
    const now = performance.now()
    deaths.push(now)
    const wait = waitAfter(deaths, now, listening().length)
    if (!wasWhole) giveUp('a process ended before all were listening')
    else if (wait === undefined) giveUp('processes end again and again')
    else restart(number, wait)
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

  async function watch(slot: Slot): Promise<void> {
    const { number, hasBegun, missed, startedAt } = slot
    const why = hangs({ hasBegun, missed, ageMs: performance.now() - startedAt }, o.patience)
    if (why) {
      o.log.error({ process: number, why }, 'a process is killed')
      slot.worker.process.kill('SIGKILL')
    } else if (hasBegun) {
      await slot.ask('alive', o.patience.askMs).then(
        () => {
          slot.missed = 0
        },
        () => slot.missed++,
      )
    }
  }

  async function stop(): Promise<boolean> {
    isStopping = true
    for (const wait of waits) clearTimeout(wait)
    const allEnded = new Promise<void>((resolve) => {
      onAllEnded = resolve
      if (slots.size === 0) resolve()
    })
    for (const { worker } of slots.values()) worker.process.kill('SIGTERM')
    const late = setTimeout(() => {
      for (const { worker, number } of slots.values()) {
        o.log.error({ process: number, why: 'it has not ended in time' }, 'a process is killed')
        worker.process.kill('SIGKILL')
      }
    }, o.patience.stopMs)
    await allEnded
    clearTimeout(late)
    clearInterval(watching)
    return isEveryEndClean
  }

  // Also of those that are stopping: one that hangs does not hear SIGTERM.
  const watching = setInterval(() => {
    for (const slot of slots.values()) void watch(slot)
  }, o.patience.askMs)
  for (let number = 1; number <= o.count; number++) start(number)
  return { metrics, listening: () => listening().length, stop }
}
