import { setTimeout as sleep } from 'node:timers/promises'
import type { EventBus, Lag } from '../../../lib/runtime/event-bus/event-bus.ts'
import type { Log } from '../../../lib/runtime/log.ts'
import type { Database } from '../../db/db.ts'
import { sharedWhilePending, type WorkerMetrics } from '../metrics.ts'
import { measureOutbox } from '../queries.ts'
import type { Consumer } from './consumer.ts'
import { type Handler, type Handling, handlerOf } from './handler.ts'
import { resume } from './position.ts'
import { countParked } from './queries.ts'
import { publishAgainAfterLoss } from './stream-loss.ts'
import { openTurns, type Turn, type Turns } from './turns.ts'

export interface ConsumersDeps extends Pick<WorkerMetrics, 'counterOf' | 'showEach'> {
  db: Database
  /** Of the database, for a connection of its own. */
  url: string
  bus: Pick<EventBus, 'isShared' | 'subscribe' | 'onStoreReady' | 'lag' | 'rewind' | 'handledTo'>
  log: Log
}

export interface RunningConsumers {
  /** Looks for parked events that are to be replayed. */
  wake(): void
  /** Resolves when the batches under way are settled. */
  stop(): Promise<void>
}

/** How long another process has had the turn at most before this one asks again. */
const TURN_MS = 1000
const MAX_PAUSE_MS = 10_000

/** Has consumers handle the events of the stream. In all processes together, each consumer has one batch at a time. */
export function startConsumers(deps: ConsumersDeps, consumers: readonly Consumer[]): RunningConsumers {
  const { db, bus, log } = deps
  checkNames(consumers)
  publishAgainAfterLoss(
    deps,
    consumers.map(({ name }) => name),
  )
  const stop = new AbortController()
  const turns = bus.isShared && consumers.length > 0 ? openTurns(deps) : undefined
  const count = countersOf(deps)
  const running = consumers.map((consumer) => {
    const handler = handlerOf(
      {
        db,
        log,
        onHandled: (n) => count.handled(n, { consumer: consumer.name }),
        onRedelivered: (n) => count.redelivered(n, { consumer: consumer.name }),
      },
      consumer,
    )
    return runConsumer({ db, bus, log, turns, signal: stop.signal }, consumer, handler)
  })
  showConsumers(deps, consumers, running)
  return {
    wake() {
      for (const one of running) one.wake()
    },
    async stop() {
      stop.abort()
      await Promise.all(running.map(({ done }) => done))
      await turns?.close()
    },
  }
}

interface RunDeps extends Pick<ConsumersDeps, 'db' | 'bus' | 'log'> {
  turns: Turns | undefined
  signal: AbortSignal
}

function runConsumer({ db, bus, log, turns, signal }: RunDeps, { name, types }: Consumer, handler: Handler) {
  let active: Handling | undefined
  let replaying: Promise<void> = Promise.resolve()

  /** Until the process stops or has lost its turn. */
  async function work(turn: Turn | undefined, lost: Promise<void>): Promise<void> {
    const position = turn && (await resume({ db, bus, log }, name, turn))
    const ended = new AbortController()
    const how = { pid: turn?.pid, unconfirmedTo: position?.unconfirmedTo }
    const passed = position?.passed
    const unsubscribe = await bus.subscribe({ consumer: name, types, ...(passed && { passed }) }, (batch, stopped) =>
      handler.handle(batch, { ...how, signal: AbortSignal.any([stopped, ended.signal]) }),
    )
    active = { ...how, signal: ended.signal }
    wake()
    await Promise.race([lost, aborted(signal)])
    active = undefined
    ended.abort()
    await unsubscribe()
    await replaying
  }

  async function takeTurns(from: Turns): Promise<void> {
    for (let failures = 0; !signal.aborted; ) {
      try {
        const turn = await from.take(name)
        failures = 0
        if (turn) {
          log.info({ consumer: name }, 'this process handles the events of a consumer')
          await work(turn, turn.lost).finally(() => turn.end().catch(() => undefined))
        }
      } catch (error) {
        failures += 1
        log.warn({ err: error, consumer: name, failures }, 'cannot have a turn')
      }
      const pause = Math.min(MAX_PAUSE_MS, TURN_MS * 2 ** failures)
      await sleep(pause, undefined, { signal }).catch(() => undefined)
    }
  }

  function wake(): void {
    const how = active
    if (!how) return
    replaying = replaying
      .then(() => handler.replay(how))
      .catch((error: unknown) => {
        if (!how.signal.aborted) log.warn({ err: error, consumer: name }, 'could not replay parked events')
      })
  }

  const never = new Promise<void>(() => {})
  const done = turns ? takeTurns(turns) : work(undefined, never)
  return { wake, done, isActive: () => active !== undefined }
}

const aborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })

function checkNames(consumers: readonly Consumer[]): void {
  const names = consumers.map(({ name }) => name)
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined) throw new Error(`Two consumers are called ${twice}`)
}

const countersOf = ({ counterOf }: ConsumersDeps) => ({
  handled: counterOf({ name: 'consumer_handled_total', help: 'Events handled', labels: ['consumer'] }),
  redelivered: counterOf({
    name: 'consumer_redelivered_total',
    help: 'Messages that arrived again; most were handled before',
    labels: ['consumer'],
  }),
})

const UNKNOWN: Lag = { messages: Number.NaN, oldestSeconds: Number.NaN }

function showConsumers(
  { showEach, db, bus }: ConsumersDeps,
  consumers: readonly Consumer[],
  running: readonly { isActive(): boolean }[],
): void {
  const label = 'consumer'
  const names = consumers.map(({ name }) => name)
  showEach({ name: 'consumer_active', help: 'Whether this worker handles the events of the consumer', label }, () =>
    Promise.resolve(new Map(names.map((name, i) => [name, running[i]?.isActive() ? 1 : 0]))),
  )
  // Both gauges of a scrape show the same moment.
  const lags = sharedWhilePending(async () => {
    const stored = await Promise.all(names.map((name) => bus.lag(name).catch(() => UNKNOWN)))
    if (!stored.includes(undefined)) return stored as Lag[]
    // In process, what is not handled is not published.
    const { unpublished: messages, oldestSeconds } = await db.read({}, measureOutbox)
    return stored.map((lag) => lag ?? { messages, oldestSeconds })
  })
  const showLag = (name: string, help: string, of: (lag: Lag) => number) =>
    showEach({ name, help, label }, async () => {
      const measured = await lags()
      return new Map(names.map((consumer, i) => [consumer, of(measured[i] ?? UNKNOWN)]))
    })
  showLag('consumer_pending', 'Events that wait for the consumer, without parked ones', ({ messages }) => messages)
  showLag('consumer_oldest_seconds', 'Age of the oldest of them', ({ oldestSeconds }) => oldestSeconds)
  showEach(
    { name: 'consumer_parked', help: 'Events that the consumer could not handle, and those behind', label },
    async () => {
      const parked = new Map((await db.read({}, countParked)).map((row) => [row.consumer, row.parked]))
      return new Map(names.map((name) => [name, parked.get(name) ?? 0]))
    },
  )
}
