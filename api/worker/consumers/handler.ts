import { setTimeout as sleep } from 'node:timers/promises'
import type { ReceivedEvent } from '../../../lib/contract/events.ts'
import type { Uuid } from '../../../lib/contract/ids.ts'
import { type Delivery, PoisonMessage } from '../../../lib/runtime/event-bus/event-bus.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { Log } from '../../../lib/runtime/log.ts'
import { safeMessage } from '../../../lib/runtime/log-error.ts'
import type { Database, Tx } from '../../db/db.ts'
import type { Consumer } from './consumer.ts'
import { isCanceled, isTransient, TurnLost } from './failure.ts'
import { replayWhatIsReadable } from './later-version.ts'
import { messageOf, NOT_READABLE, type ReceivedMessage, readParked } from './message.ts'
import {
  countAttempt,
  findAppended,
  forgetSuspicion,
  hasTurn,
  isReceived,
  markReplayFailed,
  nextReplays,
  type ParkedMessage,
  park,
  takeFresh,
  unpark,
} from './queries.ts'

/** Attempts at one event before it is parked. They follow each other quickly, because others wait. */
const ATTEMPTS = 3
const RETRY_MS = 150
const MAX_RETRY_MS = 30_000
/** After this many deliveries of a message without an answer, the process may die because of it. */
const SUSPICIOUS = 5
/** After an event was parked because its statement took too long; doubles with each attempt. */
const SLOW_SECONDS = 60
const MAX_SLOW_SECONDS = 3600
/** Looked up at once. */
const REPLAYS = 100
/** Characters. */
const MAX_REASON = 1000
/** Reasons that are logged once each. */
const MAX_TOLD = 100
const NO_ANSWER = 'Every attempt ended without an answer'

export interface HandlerDeps {
  db: Database
  log: Log
  onHandled?(events: number): void
  onRedelivered?(messages: number): void
}

/** `pid`: the process of the server that has the turn; undefined where no other process can have it. */
export interface Handling {
  signal: AbortSignal
  pid: number | undefined
  /** Up to this position the stream may have events whose transaction the database has lost: they have no effect. */
  unconfirmedTo?: number | undefined
}

/** Has a consumer handle messages and replays, one after the other. */
export interface Handler {
  /** Resolves when each message is handled or parked. */
  handle(batch: readonly Delivery[], how: Handling): Promise<void>
  /** Handles the parked messages that are to be replayed, and those that only an earlier version could not read. */
  replay(how: Handling): Promise<void>
}

export function handlerOf({ db, log, onHandled, onRedelivered }: HandlerDeps, consumer: Consumer): Handler {
  const { name } = consumer
  /** Reasons of what could not be read. */
  const told = new Set<string>()
  let last: Promise<unknown> = Promise.resolve()
  function inTurn(work: () => Promise<void>): Promise<void> {
    const mine = last.then(work)
    last = mine.catch(() => undefined)
    return mine
  }

  async function handle(batch: readonly Delivery[], how: Handling): Promise<void> {
    const messages = await confirmed(batch.map(messageOf).filter(isWanted), how)
    const repeated = messages.filter(({ deliveries }) => deliveries > 1).length
    if (repeated > 0) onRedelivered?.(repeated)
    const isSuspicious = messages.some(({ deliveries }) => deliveries > SUSPICIOUS)
    // An unreadable message is parked in its place: events of its aggregate before it are handled, those after it wait.
    for (const part of partsOf(messages)) {
      if (part[0]?.problem !== undefined) await parkUnread(part[0], part[0].problem, how)
      else if (isSuspicious) for (const message of part) await settleSuspect(message, how)
      else await settle(part, how)
    }
  }

  const isWanted = ({ event, problem }: ReceivedMessage) =>
    problem !== undefined || (event !== undefined && consumer.types.includes(event.type))

  /** Halves what fails, down to the event that causes it. */
  async function settle(messages: readonly ReceivedMessage[], how: Handling): Promise<void> {
    const error = await attempt(how, () => inOneTransaction(messages, how))
    if (error === undefined) return
    const [only] = messages
    if (!only || messages.length > 1) {
      const half = messages.length >> 1
      await settle(messages.slice(0, half), how)
      return settle(messages.slice(half), how)
    }
    await insist(only, error, how)
  }

  async function insist(message: ReceivedMessage, first: unknown, how: Handling): Promise<void> {
    let error = first
    let attempts = 1
    for (; attempts < ATTEMPTS && !(error instanceof PoisonMessage); attempts++) {
      await pause(RETRY_MS * 2 ** attempts, how.signal)
      error = await attempt(how, () => inOneTransaction([message], how))
      if (error === undefined) return
    }
    log.error({ err: error, consumer: name, event: message.messageId, attempts }, 'an event was parked')
    await parkOne(message, safeMessage(error), attempts, how, againSeconds(error, attempts))
  }

  async function parkUnread(message: ReceivedMessage, problem: string, how: Handling): Promise<void> {
    await parkOne(message, problem, 1, how)
    const reason = problem.slice(0, MAX_REASON)
    // A type that a later version brings may be frequent while the upgrade is under way.
    if (told.has(reason) || told.size === MAX_TOLD) return
    told.add(reason)
    const event = message.messageId
    log.error({ consumer: name, event, reason }, 'an event was parked; others with this reason are not logged')
  }

  /** One at a time, each counted before: an event at which the process dies again and again must not stop the others. */
  async function settleSuspect(message: ReceivedMessage, how: Handling): Promise<void> {
    let before = 0
    await untilDone(how, async () => {
      before = await db.inTransaction({}, (tx) => countAttempt(tx, name, message.messageId))
    })
    if (before >= ATTEMPTS) return parkOne(message, NO_ANSWER, before, how)
    await settle([message], how).catch(unlessStopped(message))
    await untilDone(how, () => db.inTransaction({}, (tx) => forgetSuspicion(tx, name, [message])))
  }

  /** A process that is stopped has not died: the attempt does not count. */
  const unlessStopped = (message: Pick<ReceivedMessage, 'messageId'>) => async (stopped: unknown) => {
    await db.inTransaction({}, (tx) => forgetSuspicion(tx, name, [message])).catch(() => undefined)
    throw stopped
  }

  async function parkOne(
    message: ReceivedMessage,
    reason: string,
    attempts: number,
    how: Handling,
    again: number | null = null,
  ): Promise<void> {
    await untilDone(how, () =>
      db.inTransaction({}, async (tx) => {
        // What is marked as received was handled before, perhaps under a version that could read it.
        if (await isReceived(tx, name, message.messageId)) return
        await park(tx, name, [message], { reason: reason.slice(0, MAX_REASON), attempts, againSeconds: again })
        await checkTurn(tx, how)
      }),
    )
    failpoint('consumer.parked')
  }

  async function inOneTransaction(messages: readonly ReceivedMessage[], how: Handling): Promise<void> {
    const handled = await db.inTransaction({}, async (tx) => {
      const { fresh, behind } = await takeFresh(tx, name, messages)
      const waiting = messages.filter(({ messageId }) => behind.has(messageId))
      await park(tx, name, waiting, { reason: null, attempts: 0 })
      const events = eventsOf(messages, fresh)
      if (events.length > 0) await consumer.handle(tx, events)
      await checkTurn(tx, how)
      return events.length
    })
    done(handled)
  }

  /** Without the events of which the database has lost the transaction. What is no event of ours stays, and is parked. */
  async function confirmed(messages: readonly ReceivedMessage[], how: Handling): Promise<readonly ReceivedMessage[]> {
    const isInDoubt = ({ streamSeq, event, problem }: ReceivedMessage) =>
      streamSeq <= (how.unconfirmedTo ?? -1) && (event !== undefined || problem?.startsWith(NOT_READABLE) === true)
    const ids = messages.filter(isInDoubt).map(({ messageId }) => messageId)
    if (ids.length === 0) return messages
    let appended = new Set<Uuid>()
    await untilDone(how, async () => {
      appended = await db.inTransaction({}, async (tx) => {
        const found = await findAppended(tx, ids)
        // A connection that still leads to the primary of before knows other events.
        await checkTurn(tx, how)
        return found
      })
    })
    return messages.filter((message) => !isInDoubt(message) || appended.has(message.messageId))
  }

  function done(events: number): void {
    if (events === 0) return
    onHandled?.(events)
    consumer.committed?.()
  }

  /** Before the commit: the process may have been frozen, and another one may work since. */
  async function checkTurn(tx: Tx, { pid }: Handling): Promise<void> {
    if (pid !== undefined && !(await hasTurn(tx, name, pid)))
      throw new TurnLost(`${name}: another process has the turn`)
  }

  /** Repeats work until the database does not stop it. Returns the error where the work itself fails. */
  async function attempt({ signal }: Handling, work: () => Promise<void>): Promise<unknown> {
    for (let failures = 0; ; failures++) {
      signal.throwIfAborted()
      try {
        await work()
        return undefined
      } catch (error) {
        if (error instanceof TurnLost) throw error
        if (!isTransient(error)) return error ?? new Error('undefined was thrown')
        log.warn({ err: error, consumer: name, failures: failures + 1 }, 'the database stopped a consumer')
        await pause(Math.min(MAX_RETRY_MS, RETRY_MS * 2 ** Math.min(failures, 8)) * (0.8 + 0.2 * Math.random()), signal)
      }
    }
  }

  async function untilDone(how: Handling, work: () => Promise<void>): Promise<void> {
    const error = await attempt(how, work)
    if (error !== undefined) throw error
  }

  /** A message that was replayed or deleted in the meantime has no effect. */
  async function replayOne(parked: ParkedMessage, how: Handling): Promise<void> {
    const error = await attemptReplay(parked, how)
    if (error === undefined) return
    log.error({ err: error, consumer: name, event: parked.messageId }, 'a parked event failed again')
    const reason = safeMessage(error).slice(0, MAX_REASON)
    await untilDone(how, () =>
      db.inTransaction({}, async (tx) => {
        const again = againSeconds(error, parked.attempts + 1)
        await markReplayFailed(tx, parked, { reason, attempts: 1, againSeconds: again })
        await forgetSuspicion(tx, name, [parked])
        await checkTurn(tx, how)
      }),
    )
  }

  async function attemptReplay(parked: ParkedMessage, how: Handling): Promise<unknown> {
    const { event, problem } = readParked(parked.event)
    if (!event) return new PoisonMessage(problem)
    let before = 0
    await untilDone(how, async () => {
      before = await db.inTransaction({}, (tx) => countAttempt(tx, name, parked.messageId))
    })
    if (before >= ATTEMPTS) return new PoisonMessage(NO_ANSWER)
    let handled = 0
    const error = await attempt(how, async () => {
      handled = await db.inTransaction({}, async (tx) => {
        // An earlier version parks events of unknown types for every consumer. One that does not want them drops them here.
        const isFresh = await unpark(tx, name, parked.messageId)
        const events = isFresh && consumer.types.includes(event.type) ? [event] : []
        if (events.length > 0) await consumer.handle(tx, events)
        await forgetSuspicion(tx, name, [parked])
        await checkTurn(tx, how)
        failpoint('consumer.replaying')
        return events.length
      })
      failpoint('consumer.replayed')
    }).catch(unlessStopped(parked))
    done(handled)
    return error
  }

  return {
    handle: (batch, how) => inTurn(() => handle(batch, how)),
    async replay(how) {
      await replayWhatIsReadable({ db, log }, name)
      while (true) {
        const next = await db.read({}, (tx) => nextReplays(tx, name, REPLAYS))
        if (next.length === 0) return
        // A batch that has arrived meanwhile is handled before the next one.
        for (const parked of next) await inTurn(() => replayOne(parked, how))
      }
    },
  }
}

/** Runs of readable messages, and unreadable ones by themselves. */
function partsOf(messages: readonly ReceivedMessage[]): ReceivedMessage[][] {
  const parts: ReceivedMessage[][] = []
  for (const message of messages) {
    const current = parts.at(-1)
    if (current && message.problem === undefined && current[0]?.problem === undefined) current.push(message)
    else parts.push([message])
  }
  return parts
}

/** Each fresh message once, in the order of the first delivery. */
function eventsOf(messages: readonly ReceivedMessage[], fresh: ReadonlySet<string>): ReceivedEvent[] {
  const events = new Map(messages.map(({ messageId, event }) => [messageId as string, event]))
  return [...events].flatMap(([id, event]) => (event && fresh.has(id) ? [event] : []))
}

/**
 * When the next attempt at an event is due that was parked because its statement took too long: the database was slow, and
 * will not be for ever, and others do not wait for it meanwhile. Null for any other failure.
 */
const againSeconds = (error: unknown, attempts: number): number | null =>
  isCanceled(error) ? Math.min(MAX_SLOW_SECONDS, SLOW_SECONDS * 2 ** Math.max(0, attempts - ATTEMPTS)) : null

const pause = (ms: number, signal: AbortSignal) => sleep(ms, undefined, { signal })
