import { type EventType, isEventType, type OutboxMessage, subjectOf, toCloudEvent } from '../../lib/contract/events.ts'
import type { EventBus } from '../../lib/runtime/event-bus/event-bus.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { safeMessage } from '../../lib/runtime/log-error.ts'
import type { Database } from '../db/db.ts'
import { backoffSeconds, within } from './backoff.ts'
import { awaitsReaction, type ByReaction, claimDue, markFailed, markPublished, type OutboxRow } from './queries.ts'
import { makeWakeup } from './wakeup.ts'

export interface RelayDeps {
  db: Database
  bus: Pick<EventBus, 'era' | 'publish'> & Partial<Pick<EventBus, 'isAway'>>
  log: Log
  /**
   * What the worker itself must do after an event. The relay may call it again for the same event, but not because the
   * publication failed.
   */
  react(message: OutboxMessage): Promise<void>
  /** Types of events with a reaction; none when left out. */
  reactsTo?: readonly string[]
  onPublished?(type: EventType): void
  onFailed?(type: string, step: RelayStep): void
}

export interface RelayOptions {
  /**
   * Events in flight at once. An event that hangs occupies one slot and does not stop the relay. Events with a reaction have
   * half of the slots at most, so that an outage of what a reaction needs leaves the others to the rest.
   */
  concurrency?: number
  pollMs?: number
  /** No other relay claims a claimed event for this long; must cover both steps. */
  leaseSeconds?: number
  stepMs?: number
  /** Seconds between the n-th failure of an event and its retry. */
  backoff?: (attempts: number) => number
}

export interface Relay {
  /** Looks for due events now instead of at the next poll. */
  wake(): void
  /** Stops claiming and resolves when all claimed events are settled. */
  stop(): Promise<void>
}

/** `era`: of the bus when it was claimed. */
type Claimed = OutboxRow & { era: number }

export type RelayStep = 'decode' | 'react' | 'publish' | 'mark'

/**
 * Delivers committed events: claims them by lease, reacts, publishes and marks them. Delivers at least once, and the
 * events of an aggregate in the order of its versions as long as leases hold. Any number may run against one database.
 */
export function startRelay(deps: RelayDeps, options: RelayOptions = {}): Relay {
  const { db, log } = deps
  const { concurrency = 16, pollMs = 1000, leaseSeconds = 30, stepMs = 10_000, backoff = backoffSeconds } = options
  const { reactsTo = [] } = deps
  const maxReacting = Math.ceil(concurrency / 2)
  let reacting = 0
  const running = new Map<string, Promise<void>>()
  /** Claimed again while this relay still delivers them: only the new lease counts. */
  const again = new Map<string, Claimed>()
  const wakeup = makeWakeup()
  let isStopping = false
  let outages = 0
  /** When a claim by reaction found nothing; undefined when there may be something since. */
  let emptyAt: number | undefined
  const isAway = () => deps.bus.isAway?.() ?? false

  /** Undefined where there is no place, or nothing can be expected. */
  function whatToClaim(): { limit: number; byReaction?: ByReaction } | undefined {
    const free = concurrency - running.size
    // Any of them may have a reaction. A claim that finds something is followed by the next one at once.
    const forReactions = Math.min(free, maxReacting - reacting)
    const isOffline = isAway()
    if (forReactions > 0 && !isOffline) return { limit: forReactions }
    const limit = isOffline ? forReactions : free
    // Such a claim that finds nothing has read all that is due.
    const isEmpty = emptyAt !== undefined && performance.now() - emptyAt < pollMs
    if (limit <= 0 || isEmpty) return undefined
    // What only waits to be published would be claimed and put off without end while the event server is away.
    return { limit, byReaction: { types: reactsTo, isAwaited: isOffline } }
  }

  async function claim(): Promise<Claimed[]> {
    const what = whatToClaim()
    if (!what) return []
    // Before the claim: it looks at which earlier events count as published, and a lost stream changes that.
    const era = deps.bus.era()
    // The same: what is announced meanwhile may not be seen.
    if (what.byReaction) emptyAt = performance.now()
    try {
      const rows = await db.inTransaction({}, (tx) => claimDue(tx, { ...what, leaseSeconds }))
      outages = 0
      if (rows.length > 0) failpoint('relay.claimed')
      if (what.byReaction && rows.length > 0) emptyAt = undefined
      return rows.map((row) => ({ ...row, era }))
    } catch (error) {
      outages += 1
      log.warn({ err: error, outages }, 'could not claim events')
      return []
    }
  }

  async function loop(): Promise<void> {
    while (!isStopping) {
      const rows = await claim()
      for (const row of rows) start(row)
      // A claimed event may have freed the next one of its aggregate by now: wait only after an empty claim.
      if (rows.length === 0) await wakeup.wait(Math.min(5000, pollMs * 2 ** Math.min(outages, 5)))
    }
    await Promise.all(running.values())
  }

  function start(row: Claimed): void {
    if (running.has(row.id)) {
      again.set(row.id, row)
      return
    }
    const hasReaction = awaitsReaction(row) && reactsTo.includes(row.type)
    if (hasReaction) reacting += 1
    const work = deliver(row).finally(() => {
      if (hasReaction) reacting -= 1
      // The next one of its aggregate may be another without a reaction.
      else if (!isAway()) emptyAt = undefined
      running.delete(row.id)
      const next = again.get(row.id)
      again.delete(row.id)
      if (next && !isStopping) start(next)
      wakeup.wake()
    })
    running.set(row.id, work)
  }

  /** Never rejects: a row that cannot be postponed is free again when its lease ends. */
  async function deliver({ era, ...row }: Claimed): Promise<void> {
    let step: RelayStep = 'decode'
    try {
      const message = messageOf(row)
      const event = toCloudEvent(message)
      step = 'react'
      if (awaitsReaction(row)) await within(stepMs, 'the reaction', deps.react(message))
      failpoint('relay.reacted')
      step = 'publish'
      const { area, orgId: org, aggregateId: aggregate, type } = message
      const publishing = deps.bus.publish(subjectOf({ area, org, aggregate, type }), event, era)
      const seq = await within(stepMs, 'publishing', publishing)
      failpoint('relay.published')
      step = 'mark'
      await db.inTransaction({}, (tx) => markPublished(tx, row, seq ?? null))
      deps.onPublished?.(type)
    } catch (error) {
      deps.onFailed?.(isEventType(row.type) ? row.type : 'unknown', step)
      await putOff(row, step, error)
    }
  }

  /** The bus itself says that its server is away: one line is enough. */
  function levelOf(step: RelayStep, attempts: number): 'debug' | 'warn' | 'error' {
    if (step === 'publish' && isAway()) return 'debug'
    // A retry here cannot decode the event: later events of its aggregate wait until an administrator acts.
    return step === 'decode' || attempts >= 5 ? 'error' : 'warn'
  }

  async function putOff(row: OutboxRow, step: RelayStep, error: unknown): Promise<void> {
    const retrySeconds = backoff(row.attempts)
    const about = { err: error, event: row.id, type: row.type, aggregate: row.aggregateId, step, attempt: row.attempts }
    const level = levelOf(step, row.attempts)
    log[level]({ ...about, retrySeconds: Math.round(retrySeconds) }, 'event not published')
    const message = `${step}: ${safeMessage(error)}`
    try {
      await db.inTransaction({}, (tx) => markFailed(tx, row, { message, retrySeconds }))
    } catch (failure) {
      log.warn({ err: failure, event: row.id }, 'could not postpone an event; its lease will end')
    }
  }

  const done = loop()
  return {
    wake() {
      // During an outage of the event server what is due grows: it is read at the polls alone.
      if (!isAway()) emptyAt = undefined
      wakeup.wake()
    },
    async stop() {
      isStopping = true
      wakeup.wake()
      await done
    },
  }
}

function messageOf({ type, ...row }: OutboxRow): OutboxMessage {
  // A newer version may have appended it, whose relay knows the type: it is retried like every other failure.
  if (!isEventType(type)) throw new Error(`There is no event type ${type}`)
  return { ...row, type }
}
