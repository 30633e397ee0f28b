import { setTimeout as sleep } from 'node:timers/promises'
import { type ConsumerMessages, headers, type JetStreamClient, type JetStreamManager, type JsMsg } from 'nats'
import { CloudEvent, STREAM } from '../../contract/events.ts'
import { failpoint } from '../failpoint.ts'
import type { Log } from '../log.ts'
import { type Delivery, PoisonMessage, type SubscribeOptions } from './event-bus.ts'
import { BACKOFF_MS, MAX_DELIVER } from './names.ts'
import { deadSubject, ensureConsumer } from './nats-streams.ts'

export interface Wire {
  js: JetStreamClient
  jsm: JetStreamManager
}

interface ConsumeDeps {
  connected(): Promise<Wire>
  /** Reports a failure, so that the streams are checked again. */
  suspect(): void
  /** A handler that sends no signal for this long counts as dead; a running handler sends three within it. */
  ackWaitMs: number
  log: Log
}

/** Also the time after which the loss of the consumer on the server is noticed. */
const PULL_MS = 5_000
const AFTER_ERROR_MS = 1_000

/**
 * Handles one message after the other until stopped; survives restarts and losses of the server. Resolves when the
 * consumer exists or its creation has failed once. Creation is then retried; no event is lost, because the consumer
 * starts at the beginning of the stream.
 */
export async function consume(
  { connected, suspect, ackWaitMs, log }: ConsumeDeps,
  options: SubscribeOptions,
  handle: (d: Delivery) => Promise<void>,
): Promise<() => Promise<void>> {
  const { consumer, types, maxDeliver = MAX_DELIVER, backoffMs = BACKOFF_MS } = options
  const stop = new AbortController()
  let pulling: ConsumerMessages | undefined

  async function run(started: () => void): Promise<void> {
    while (!stop.signal.aborted) {
      try {
        const wire = await connected()
        await ensureConsumer(wire.jsm, options, ackWaitMs)
        started()
        await pullFrom(wire)
      } catch (error) {
        if (stop.signal.aborted) return
        log.warn({ err: error, consumer }, 'the event consumer was interrupted')
        suspect()
        started()
        await sleep(AFTER_ERROR_MS, undefined, { signal: stop.signal }).catch(() => undefined)
      }
    }
  }

  async function pullFrom(wire: Wire): Promise<void> {
    const source = await wire.js.consumers.get(STREAM, consumer)
    while (!stop.signal.aborted) {
      // One at a time: a message that waits behind a slow one would use up its ack wait.
      pulling = await source.fetch({ max_messages: 1, expires: PULL_MS })
      if (stop.signal.aborted) pulling.stop()
      for await (const message of pulling) await take(wire, message)
      const error = await pulling.closed()
      if (error) throw error
      // A server that has lost the consumer, or is deleting it, may ignore requests without an error.
      if (pulling.getReceived() === 0 && !stop.signal.aborted) await source.info()
    }
  }

  async function take(wire: Wire, message: JsMsg): Promise<void> {
    if (stop.signal.aborted) return message.nak()
    const event = eventIn(message)
    if (!event) return putAside(wire, message, 'Not a CloudEvent')
    if (!types.includes(event.type)) return message.ack()
    const attempt = message.info.deliveryCount
    // The last attempt ended without an answer: the process died, perhaps because of this message.
    if (attempt > maxDeliver) return putAside(wire, message, 'Every attempt ended without an answer')
    const alive = setInterval(() => message.working(), ackWaitMs / 3)
    try {
      await handle({ event, attempt })
    } catch (error) {
      return await refused(wire, message, attempt, error)
    } finally {
      clearInterval(alive)
    }
    failpoint('bus.handled')
    await message.ackAck()
  }

  async function refused(wire: Wire, message: JsMsg, attempt: number, error: unknown): Promise<void> {
    if (error instanceof PoisonMessage || attempt >= maxDeliver) return putAside(wire, message, error)
    const delay = backoffMs[Math.min(attempt, backoffMs.length) - 1] ?? 0
    log.warn({ err: error, consumer, subject: message.subject, attempt, againInMs: delay }, 'not handled')
    message.nak(delay)
  }

  /** Stores the dead letter before it drops the message. After a crash in between, the id prevents a duplicate. */
  async function putAside(wire: Wire, message: JsMsg, why: unknown): Promise<void> {
    log.error({ err: why, consumer, subject: message.subject, seq: message.seq }, 'put aside as a dead letter')
    const about = headers()
    about.set('Keepsake-Subject', message.subject)
    about.set('Keepsake-Seq', String(message.seq))
    const msgID = `dlq-${consumer}-${message.seq}`
    await wire.js.publish(deadSubject(consumer), message.data, { msgID, headers: about })
    failpoint('bus.dead-letter-stored')
    message.term()
  }

  const { promise: started, resolve } = Promise.withResolvers<void>()
  const running = run(resolve)
  await started
  return async () => {
    stop.abort()
    pulling?.stop()
    await running
  }
}

export function eventIn(message: { json<T>(): T }): CloudEvent | undefined {
  try {
    return CloudEvent.safeParse(message.json<unknown>()).data
  } catch {
    return undefined
  }
}
