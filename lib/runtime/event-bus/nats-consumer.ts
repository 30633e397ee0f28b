import { setImmediate as immediate, setTimeout as sleep } from 'node:timers/promises'
import type { Consumer, ConsumerMessages, JetStreamClient, JetStreamManager, JsMsg } from 'nats'
import { CloudEvent, STREAM } from '../../contract/events.ts'
import { failpoint } from '../failpoint.ts'
import type { Log } from '../log.ts'
import { isFor } from './delivered.ts'
import type { Delivery, HandleBatch, SubscribeOptions } from './event-bus.ts'
import { BATCH } from './names.ts'
import { ensureConsumer } from './nats-streams.ts'

export interface Wire {
  js: JetStreamClient
  jsm: JetStreamManager
  /** Aborts when the connection breaks: what the server has sent through it may not have arrived. */
  lost: AbortSignal
}

interface ConsumeDeps {
  connected(): Promise<Wire>
  /** Reports a failure, so that the streams are checked again. */
  suspect(): void
  /** A process that sends no signal for this long counts as dead; a living one sends three within it. */
  ackWaitMs: number
  log: Log
}

/** Also the time after which the loss of the server is noticed: it ends a request to a dead one. */
const PULL_MS = 5_000
const AFTER_ERROR_MS = 1_000
const LOOK_MS = 250
/** Before a batch that failed is handled again; doubles with each failure. */
const AGAIN_MS = 100
const MAX_AGAIN_MS = 10_000

/**
 * Handles one batch after the other until stopped; survives restarts and losses of the server. Resolves when the
 * consumer exists or its creation has failed once. Creation is then retried; no event is lost, because the consumer
 * starts at the beginning of the stream.
 */
export async function consume(
  { connected, suspect, ackWaitMs, log }: ConsumeDeps,
  options: SubscribeOptions,
  handle: HandleBatch,
): Promise<() => Promise<void>> {
  const { consumer, types, batch: most = BATCH } = options
  const stop = new AbortController()
  const { signal } = stop
  let pulling: ConsumerMessages | undefined

  async function run(started: () => void): Promise<void> {
    while (!signal.aborted) {
      try {
        const wire = await connected()
        await ensureConsumer(wire.jsm, options, ackWaitMs)
        started()
        await pullFrom(await wire.js.consumers.get(STREAM, consumer), wire.lost)
      } catch (error) {
        if (signal.aborted) return
        log.warn({ err: error, consumer }, 'the event consumer was interrupted')
        suspect()
        started()
        await pause(AFTER_ERROR_MS)
      }
    }
  }

  async function pullFrom(source: Consumer, lost: AbortSignal): Promise<void> {
    const unanswered = await whenPredecessorIsGone(source)
    if (unanswered > 0) await pull(source, lost, { messages: unanswered, batches: batchesInOrder(most) })
    while (!signal.aborted && !lost.aborted) {
      await pull(source, lost, { messages: most, batches: batchesOf })
    }
  }

  /**
   * A process that was cut off may still have a request at the server, which would take messages there. What it took, or
   * has died with, or has acknowledged in vain, comes again when its ack wait has ended, and before anything newer: until
   * then a newer event of the same aggregate would overtake it. Returns how many come again.
   */
  async function whenPredecessorIsGone(source: Consumer): Promise<number> {
    let unansweredSince: number | undefined
    while (!signal.aborted) {
      const { num_ack_pending: unanswered, num_waiting: requests } = await source.info()
      if (requests > 0) unansweredSince = undefined
      else {
        if (unanswered === 0) return 0
        unansweredSince ??= performance.now()
        if (performance.now() - unansweredSince > ackWaitMs * 1.05) return unanswered
      }
      await pause(Math.min(LOOK_MS, ackWaitMs / 4))
    }
    return 0
  }

  async function pull(source: Consumer, lost: AbortSignal, wanted: Wanted): Promise<void> {
    const messages = await source.fetch({ max_messages: wanted.messages, expires: PULL_MS })
    pulling = messages
    // The client would ask again through its next connection, where newer messages come first.
    const stopPulling = () => messages.stop()
    lost.addEventListener('abort', stopPulling)
    if (signal.aborted || lost.aborted) messages.stop()
    /** Received and not settled. */
    const held = new Set<JsMsg>()
    try {
      for await (const batch of wanted.batches(messages, held)) await take(batch, held)
    } finally {
      lost.removeEventListener('abort', stopPulling)
      // What is left comes again when its ack wait has ended. The server would mix the order of refused messages.
      messages.stop()
    }
    const error = await messages.closed()
    if (error) throw error
    // A server that has lost the consumer, or is deleting it, may ignore requests without an error.
    if (messages.getReceived() === 0 && !signal.aborted && !lost.aborted) await source.info()
  }

  async function take(batch: JsMsg[], held: Set<JsMsg>): Promise<void> {
    // Those that wait behind the batch are signaled too: their ack wait runs since the server sent them.
    const alive = setInterval(() => {
      try {
        for (const message of held) message.working()
      } catch {
        // The client has closed the connection: the messages come again through the next one.
      }
    }, ackWaitMs / 3)
    try {
      const wanted = batch.map(deliveryOf).filter(({ event }) => !event || isFor(types, event))
      if (wanted.length > 0) {
        await untilHandled(wanted)
        failpoint('bus.handled')
      }
      await options.passed?.(Math.max(...batch.map(({ seq }) => seq)))
      for (const message of batch) {
        message.ack()
        held.delete(message)
      }
    } finally {
      clearInterval(alive)
    }
  }

  /**
   * Repeats a batch that failed here, while its messages are held: the server would send them again behind others, and
   * into the request that this program has just left.
   */
  async function untilHandled(batch: Delivery[]): Promise<void> {
    for (let failures = 0; ; failures++) {
      try {
        return await handle(
          batch.map((delivery) => ({ ...delivery, attempt: delivery.attempt + failures })),
          signal,
        )
      } catch (error) {
        if (signal.aborted) throw error
        log.warn({ err: error, consumer, failures: failures + 1 }, 'a batch of events was not handled')
        await pause(Math.min(MAX_AGAIN_MS, AGAIN_MS * 2 ** Math.min(failures, 8)))
        signal.throwIfAborted()
      }
    }
  }

  const pause = (ms: number) => sleep(ms, undefined, { signal }).catch(() => undefined)
  const { promise: started, resolve } = Promise.withResolvers<void>()
  const running = run(resolve)
  await started
  return async () => {
    stop.abort()
    pulling?.stop()
    await running
  }
}

interface Wanted {
  messages: number
  batches(pulling: ConsumerMessages, held: Set<JsMsg>): AsyncGenerator<JsMsg[]>
}

/** All of them in the order of the stream: the server sends again in the order in which ack waits have ended. */
const batchesInOrder = (most: number): Wanted['batches'] =>
  async function* (pulling, held) {
    for await (const message of pulling) held.add(message)
    const inOrder = [...held].sort((a, b) => a.seq - b.seq)
    for (let i = 0; i < inOrder.length; i += most) yield inOrder.slice(i, i + most)
  }

/**
 * What has arrived, as soon as the server has no more: a request for 100 that finds 3 would wait for the other 97 until
 * it expires. It goes on meanwhile. Ending it instead would drop what is on its way, which newer messages then overtake.
 */
async function* batchesOf(pulling: ConsumerMessages, held: Set<JsMsg>): AsyncGenerator<JsMsg[]> {
  const arriving = pulling[Symbol.asyncIterator]()
  const receive = async () => {
    const { done, value } = await arriving.next()
    if (done) return undefined
    held.add(value)
    return value
  }
  let next = receive()
  while (true) {
    let message = await next
    if (!message) return
    const batch: JsMsg[] = []
    while (message) {
      batch.push(message)
      next = receive()
      // Nothing more is announced after the last one; what has arrived already still belongs to the batch.
      message = message.info.pending > 0 ? await next : await Promise.race([next, immediate(undefined)])
    }
    yield batch
  }
}

function deliveryOf(message: JsMsg): Delivery {
  const { subject, seq } = message
  return { event: eventIn(message), subject, seq, attempt: message.info.deliveryCount, text: () => message.string() }
}

function eventIn(message: { json<T>(): T }): CloudEvent | undefined {
  try {
    return CloudEvent.safeParse(message.json<unknown>()).data
  } catch {
    return undefined
  }
}
