import type { Uuid } from '../../../lib/contract/ids.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { Log } from '../../../lib/runtime/log.ts'
import { safeMessage } from '../../../lib/runtime/log-error.ts'
import type { Database, Tx } from '../../db/db.ts'
import type { DeliveryRow, NotificationRow } from '../../db/schema/notifications.ts'
import { backoffSeconds } from '../../worker/backoff.ts'
import { isCanceled, isTransient } from '../../worker/consumers/failure.ts'
import { makeWakeup } from '../../worker/wakeup.ts'
import { LAST_NOTICE } from '../event-archive/notice-plan.ts'
import { type Channel, type ChannelPart, LEASE_SECONDS, type Outcome, SEND_SECONDS } from './channel.ts'
import type { Compose } from './compose.ts'
import {
  admitChannel,
  type Claimed,
  claimDelivery,
  claimLost,
  delayAll,
  endPauses,
  isOut,
  isPaused,
  LEASES_SECONDS,
  markEnded,
  markSending,
  markSuppressed,
  pauseChannel,
  pauseReceiver,
  postpone,
  restOf,
  resumeChannel,
  secondsToNext,
} from './delivery-queries.ts'
import { type Gathered, gather } from './gather.ts'
import { type Attempt, jittered, type Next, nextOf, nextOfLost, pauseSeconds, receiverPauseSeconds } from './plan.ts'
import { isOfClosedAccount, isUnwanted } from './preference-queries.ts'
import { findNotification } from './queries.ts'

export interface SenderDeps {
  db: Database
  log: Log
  compose: Compose
  onAttempt(channel: string, outcome: string): void
}

export interface SenderOptions {
  /** The longest time without a look at the database. */
  idleMs?: number
  leaseSeconds?: number
  sendSeconds?: number
}

export interface Sender {
  /** Looks for due deliveries now. */
  wake(): void
  /** Takes on nothing more and resolves when the attempts in flight have ended. */
  stop(): Promise<void>
}

interface Started {
  delivery: DeliveryRow
  notification: NotificationRow
  gathered: Gathered
  isProbe: boolean
  /** What the destination shares with others. */
  service: string | undefined
  /** Receivers whose pause ends with an answer. */
  paused: string[]
}

/** Exponent of the longest pause between two preparations: 64 s. */
const MAX_PUT_OFF = 7
/** Attempts to prepare a delivery that fails by itself. What the database stopped is tried until it is too old. */
const MAX_PREPARATIONS = 12

/**
 * Sends the deliveries of one channel, in any number of workers. The transaction that decides to send one commits
 * `sending` before the channel is called, so that a death afterwards is known as an attempt without an answer.
 */
export function startSender(
  { db, log, compose, onAttempt }: SenderDeps,
  part: ChannelPart & { channel: Channel },
  options: SenderOptions = {},
): Sender {
  const { channel } = part
  const { name } = channel
  const { idleMs = 10_000, leaseSeconds = LEASE_SECONDS, sendSeconds = SEND_SECONDS } = options
  const running = new Set<Promise<void>>()
  const wakeup = makeWakeup()
  let isStopping = false
  let outages = 0
  let leasesSeenAt = Number.NEGATIVE_INFINITY

  async function loop(): Promise<void> {
    while (!isStopping) {
      try {
        const found = running.size < channel.concurrency && (await startNext())
        outages = 0
        if (!found) await wakeup.wait(running.size < channel.concurrency ? await untilNext() : idleMs)
      } catch (error) {
        outages += 1
        log.warn({ err: error, channel: name, outages }, 'could not look for deliveries')
        await wakeup.wait(Math.min(idleMs, 100 * 2 ** Math.min(outages, 10)))
      }
    }
    await Promise.all(running)
  }

  /** Whether there was a delivery to look at. */
  async function startNext(): Promise<boolean> {
    if (performance.now() - leasesSeenAt > LEASES_SECONDS * 1000) {
      await db.inTransaction({}, endLeases)
      leasesSeenAt = performance.now()
    }
    let claimed: DeliveryRow | undefined
    try {
      const started = await db.inTransaction({}, async (tx) => {
        const found = await claimDelivery(tx, name)
        if (!found || (await isPaused(tx, name))) return undefined
        claimed = found.delivery
        return prepare(tx, found)
      })
      if (started === undefined) return false
      if (typeof started === 'object') start(started)
      return true
    } catch (error) {
      // Another worker has an attempt in flight at the same destination.
      if (isDuplicate(error)) return true
      if (claimed === undefined) throw error
      await putOff(claimed.id, claimed.preparations, error)
      return true
    }
  }

  async function endLeases(tx: Tx): Promise<void> {
    for (const lost of await claimLost(tx, name)) await end(tx, lost, nextOfLost(attemptOf(lost), leaseSeconds))
  }

  const attemptOf = ({ attempts, mayHaveArrived }: DeliveryRow, of?: NotificationRow): Attempt => {
    const { schedule, isIdempotent } = channel
    // As in `isUnheard`. Its preparation is withheld once the event is told of anew, or purged.
    const isAwaited = name !== 'webhook' && of?.purgeNotice === LAST_NOTICE
    return { attempts, mayHaveArrived, schedule, isIdempotent, isAwaited }
  }

  const end = (tx: Tx, delivery: DeliveryRow, next: Next, rest = 0): Promise<boolean> =>
    markEnded(tx, delivery, { ...next, afterSeconds: Math.max(rest, jittered(next.afterSeconds)) })

  async function prepare(tx: Tx, claimed: Claimed): Promise<Started | 'suppressed' | 'waiting' | undefined> {
    const { delivery, wasPaused } = claimed
    const { id, notificationId, destination } = delivery
    const { service, rest } = await serviceOf(tx, destination)
    if (part.services && service !== undefined && rest !== undefined && rest > 0) {
      await delayAll(tx, name, {
        id,
        isBehind: part.services.isBehind(service),
        reason: `${service} rests`,
        rest,
      })
      return 'waiting'
    }
    const notification = await findNotification(tx, notificationId)
    if (!notification) throw new Error('a delivery without a notification')
    const gathered = await gatherWanted(tx, notification, delivery)
    if ('withheld' in gathered) {
      await markSuppressed(tx, id, gathered.withheld)
      onAttempt(name, 'suppressed')
      return 'suppressed'
    }
    const admission = await admitChannel(tx, name, leaseSeconds)
    if (admission === 'paused') return undefined
    const isProbe = admission === 'probe'
    const paused = wasPaused ? [destination] : []
    if (service !== undefined && rest !== undefined) paused.push(service)
    return { delivery: await markSending(tx, id, leaseSeconds), notification, gathered, isProbe, service, paused }
  }

  /** `rest`: see `restOf`. */
  async function serviceOf(tx: Tx, destination: string): Promise<{ service?: string; rest?: number | undefined }> {
    const service = await part.services?.of(tx, destination)
    return service === undefined ? {} : { service, rest: await restOf(tx, name, service) }
  }

  async function gatherWanted(tx: Tx, notification: NotificationRow, delivery: DeliveryRow) {
    const { destination } = delivery
    if (await isUnwanted(tx, name, notification, destination)) return { withheld: 'the recipient does not want it' }
    if (name !== 'webhook' && (await isOfClosedAccount(tx, notification, destination))) {
      return { withheld: 'the account of the recipient is closed' }
    }
    const withheld = await part.withhold?.(tx, notification, destination)
    if (withheld !== undefined) return { withheld }
    return gather(tx, notification, { isOut: await isOut(tx, delivery) })
  }

  async function putOff(id: Uuid, preparations: number, error: unknown): Promise<void> {
    log.warn({ err: error, channel: name, delivery: id }, 'could not prepare a delivery')
    const reason = `not prepared: ${safeMessage(error)}`.slice(0, 500)
    const afterSeconds = backoffSeconds(Math.min(4 + preparations, MAX_PUT_OFF))
    const isOfDatabase = isTransient(error) || isCanceled(error)
    const o = { reason, afterSeconds, ...(!isOfDatabase && { most: MAX_PREPARATIONS }) }
    await db.inTransaction({}, (tx) => postpone(tx, id, o))
  }

  function start(started: Started): void {
    failpoint('notification.sending')
    const work = attempt(started).finally(() => {
      running.delete(work)
      wakeup.wake()
    })
    running.add(work)
  }

  /** Never rejects: an outcome that cannot be recorded becomes unknown when the lease ends. */
  async function attempt(started: Started): Promise<void> {
    const { delivery } = started
    const outcome = await outcomeOf(started)
    failpoint('notification.sent')
    onAttempt(name, outcome.is)
    const about = { channel: name, delivery: delivery.id, attempt: delivery.attempts }
    if (outcome.is !== 'sent') log.warn({ ...about, outcome: outcome.is, reason: outcome.reason }, 'not delivered')
    try {
      const isRecorded = await db.inTransaction({}, (tx) => record(tx, started, outcome))
      if (!isRecorded) log.warn(about, 'the delivery was settled meanwhile')
    } catch (error) {
      log.warn({ ...about, err: error, outcome: outcome.is }, 'could not record an attempt; its lease will end')
    }
  }

  /** Also what the outcome means for the channel and the receiver. Returns whether the delivery was still this attempt's. */
  async function record(tx: Tx, started: Started, outcome: Outcome): Promise<boolean> {
    const { delivery, notification, isProbe, service, paused } = started
    const { destination } = delivery
    const reason = 'reason' in outcome ? outcome.reason : ''
    const next = nextOf(outcome, attemptOf(delivery, notification))
    const { pauses, askedSeconds } = next
    const receiver = { destination, service }[pauses ?? 'service']
    // Until its receiver can be tried again, the delivery is not due: each claim would look at it.
    const rest =
      pauses && receiver !== undefined
        ? await pauseReceiver(tx, name, receiver, { reason, askedSeconds, secondsOf: receiverPauseSeconds })
        : 0
    const isRecorded = await end(tx, delivery, next, rest)
    if (next.pausesChannel) await pauseChannel(tx, name, { reason, isProbe, secondsOf: pauseSeconds })
    else if (isProbe) await resumeChannel(tx, name)
    if (next.endsPauses && paused.length > 0) await endPauses(tx, name, paused)
    if (next.dropsDestination) await part.drop?.(tx, destination, reason)
    return isRecorded
  }

  async function outcomeOf({ delivery, notification, gathered }: Started): Promise<Outcome> {
    const { destination: address, attempts } = delivery
    const message = await compose(notification, gathered, address).catch((error: unknown) => {
      log.error({ err: error, notification: notification.id }, 'could not compose a message')
    })
    if (!message) return { is: 'later', wasSent: false, reason: 'could not be composed' }
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(new Error('too late')), sendSeconds * 1000)
    // A channel that ignores the signal must not occupy its place for ever.
    const aborted = new Promise<Outcome>((resolve) => {
      const reason = `no answer within ${sendSeconds} s`
      late.signal.addEventListener('abort', () => setTimeout(resolve, 1000, { is: 'unknown', reason }).unref())
    })
    try {
      return await Promise.race([channel.send(message, { address, attempt: attempts }, late.signal), aborted])
    } catch (error) {
      log.error({ err: error, channel: name, delivery: delivery.id }, 'the channel failed')
      return { is: 'unknown', reason: `the channel failed: ${safeMessage(error)}`.slice(0, 500) }
    } finally {
      clearTimeout(timer)
    }
  }

  async function untilNext(): Promise<number> {
    const seconds = await db.read({}, (tx) => secondsToNext(tx, name))
    return Math.min(idleMs, Math.max(20, (seconds ?? Number.POSITIVE_INFINITY) * 1000 + 5))
  }

  const done = loop()
  return {
    wake: () => wakeup.wake(),
    async stop() {
      isStopping = true
      wakeup.wake()
      await done
      await channel.close?.()
    },
  }
}

/** The unique index of attempts in flight. drizzle wraps the errors of pg. */
const isDuplicate = (error: unknown): boolean =>
  error instanceof Error && ((error as { code?: unknown }).code === '23505' || isDuplicate(error.cause))
