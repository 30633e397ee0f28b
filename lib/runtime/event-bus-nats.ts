import { setTimeout as sleep } from 'node:timers/promises'
import { connect, type NatsConnection } from 'nats'
import { type CloudEvent, STREAM } from '../contract/events.ts'
import type { Delivery, EventBus, SubscribeOptions } from './event-bus.ts'
import { checkConsumer, checkSubject } from './event-bus-names.ts'
import { consume, eventIn, type Wire } from './event-bus-nats-consumer.ts'
import { DEAD_STREAM, deadSubject, ensureStreams, jsErrorCode } from './event-bus-nats-streams.ts'
import type { Log } from './log.ts'

export interface NatsOptions {
  /** `nats://user:password@host:4222`, or `tls://…`; several with commas between them. */
  url: string
  /** How many servers keep each event; for streams that do not exist yet. */
  replicas?: number
  /** A program that died while it handled a message is noticed after this time. */
  ackWaitMs?: number
  log: Log
}

const PATIENCE_MS = 5_000
const ACK_WAIT_MS = 30_000
const NO_MESSAGE = 10037

/**
 * Events through NATS JetStream. Opening does not wait for the server: until it answers, `publish` and `check` throw
 * after some seconds and subscriptions keep trying. Afterwards the connection is repaired for ever.
 */
export function openNatsBus(options: NatsOptions): EventBus {
  const { log } = options
  const closing = new AbortController()
  const stoppers = new Set<() => Promise<void>>()
  let connection: NatsConnection | undefined
  let ready: Promise<Wire> | undefined
  let isOnline = false
  let online = Promise.withResolvers<void>()
  const nowOnline = () => {
    isOnline = true
    online.resolve()
  }
  const connecting = connectForEver(options, closing.signal).then((nc) => {
    connection = nc
    nowOnline()
    if (nc) void followStatus(nc)
    return nc
  })

  async function followStatus(nc: NatsConnection): Promise<void> {
    for await (const { type } of nc.status()) {
      if (type === 'disconnect') {
        log.warn('lost the event server')
        isOnline = false
        online = Promise.withResolvers()
      }
      if (type === 'reconnect') {
        log.info('the event server is back')
        nowOnline()
      }
    }
    online.resolve()
  }

  async function prepare(): Promise<Wire> {
    const nc = connection
    if (!nc) throw new Error('The event bus is closed')
    const jsm = await nc.jetstreamManager({ checkAPI: false, timeout: PATIENCE_MS })
    await ensureStreams(jsm, options.replicas ?? 1)
    return { jsm, js: nc.jetstream({ timeout: PATIENCE_MS }) }
  }

  /** Shared by all callers; whatever fails afterwards makes the next one look at the streams again. */
  async function connected(): Promise<Wire> {
    // What is asked while there is no connection is lost: the client would only notice when its time is up.
    await within(online.promise)
    ready ??= prepare().catch((error: unknown) => {
      ready = undefined
      throw error
    })
    return within(ready)
  }

  const suspect = () => {
    ready = undefined
  }

  async function onWire<T>(work: (wire: Wire) => Promise<T>): Promise<T> {
    if (closing.signal.aborted) throw new Error('The event bus is closed')
    const wire = await connected()
    try {
      return await work(wire)
    } catch (error) {
      suspect()
      throw error
    }
  }

  async function publish(subject: string, event: CloudEvent): Promise<void> {
    checkSubject(subject)
    const data = JSON.stringify(event)
    await onWire(({ js }) => js.publish(subject, data, { msgID: event.id, expect: { streamName: STREAM } }))
  }

  async function subscribe(subscription: SubscribeOptions, handle: (d: Delivery) => Promise<void>) {
    checkConsumer(subscription.consumer)
    if (closing.signal.aborted) throw new Error('The event bus is closed')
    const consumeDeps = { connected, suspect, ackWaitMs: options.ackWaitMs ?? ACK_WAIT_MS, log }
    const stop = await consume(consumeDeps, subscription, handle)
    stoppers.add(stop)
    return () => {
      stoppers.delete(stop)
      return stop()
    }
  }

  async function close(): Promise<void> {
    closing.abort()
    await Promise.all([...stoppers].map((stop) => stop()))
    const nc = await connecting
    if (!nc || nc.isClosed()) return
    // While the server is away there is nobody to drain to, and drain() then resolves without having closed.
    if (isOnline) await within(nc.drain()).catch(() => undefined)
    await nc.close()
  }

  return {
    publish,
    subscribe,
    close,
    deadLetters(consumer) {
      checkConsumer(consumer)
      return onWire(({ jsm }) => readDeadLetters(jsm, consumer))
    },
    async check() {
      if (connection && !isOnline) throw new Error('The connection to the event server is lost')
      await onWire(({ jsm }) => jsm.streams.info(STREAM))
    },
  }
}

async function connectForEver(options: NatsOptions, signal: AbortSignal): Promise<NatsConnection | undefined> {
  const where = addressOf(options.url)
  for (let attempt = 0; !signal.aborted; attempt++) {
    try {
      return await connect({
        ...where,
        name: 'keepsake',
        timeout: PATIENCE_MS,
        maxReconnectAttempts: -1,
        reconnectTimeWait: 500,
        pingInterval: 20_000,
      })
    } catch (error) {
      options.log.warn({ err: error }, 'cannot reach the event server yet')
      await sleep(Math.min(500 * 2 ** attempt, 5_000), undefined, { signal }).catch(() => undefined)
    }
  }
  return undefined
}

/** The client does not read credentials in addresses. */
function addressOf(url: string) {
  const urls = url.split(',').map((part) => new URL(part.trim()))
  const { username, password } = urls[0] ?? { username: '', password: '' }
  return {
    servers: urls.map((u) => u.host),
    ...(username !== '' && { user: decodeURIComponent(username), pass: decodeURIComponent(password) }),
    ...(urls.some((u) => u.protocol === 'tls:') && { tls: {} }),
  }
}

async function readDeadLetters(jsm: Wire['jsm'], consumer: string): Promise<CloudEvent[]> {
  const found: CloudEvent[] = []
  for (let seq = 1; ; seq++) {
    try {
      // `next_by_subj` is in the protocol since server 2.9 and missing in the client's type.
      const query: { seq: number; next_by_subj: string } = { seq, next_by_subj: deadSubject(consumer) }
      const message = await jsm.streams.getMessage(DEAD_STREAM, query)
      seq = message.seq
      const event = eventIn(message)
      if (event) found.push(event)
    } catch (error) {
      if (jsErrorCode(error) === NO_MESSAGE) return found
      throw error
    }
  }
}

async function within<T>(work: Promise<T>): Promise<T> {
  const settled = new AbortController()
  const late = sleep(PATIENCE_MS, undefined, { signal: settled.signal }).then(() => {
    throw new Error('The event server did not answer in time')
  })
  try {
    return await Promise.race([work, late])
  } finally {
    late.catch(() => undefined)
    settled.abort()
  }
}
