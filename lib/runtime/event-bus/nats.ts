import { setTimeout as sleep } from 'node:timers/promises'
import { connect, type NatsConnection } from 'nats'
import { type CloudEvent, STREAM } from '../../contract/events.ts'
import type { Log } from '../log.ts'
import type { EventBus, HandleBatch, StoreReady, SubscribeOptions } from './event-bus.ts'
import { checkConsumer, checkSubject } from './names.ts'
import { consume, type Wire } from './nats-consumer.ts'
import { eraseMessages } from './nats-erasure.ts'
import {
  claimStream,
  ensureStream,
  handledTo,
  hasStill,
  lagOf,
  removeConsumer,
  rewindConsumer,
} from './nats-streams.ts'

export interface NatsOptions {
  /** `nats://user:password@host:4222` or `tls://…`; several separated by commas. */
  url: string
  /** Replicas of each event; applies to streams that do not exist yet. */
  replicas?: number
  /** Time after which a message is redelivered whose handler's process died. */
  ackWaitMs?: number
  log: Log
}

const PATIENCE_MS = 5_000
const ACK_WAIT_MS = 10_000

/**
 * Events through NATS JetStream. Opening does not wait for the server: until it answers, `publish` and `check` throw,
 * at first after some seconds, and subscriptions keep retrying. Afterwards the client reconnects without limit. When the client gives
 * up, as it does when the server refuses the login twice, the bus connects with a new one.
 */
export function openNatsBus(options: NatsOptions): EventBus {
  const { log } = options
  const closing = new AbortController()
  const stoppers = new Set<() => Promise<void>>()
  let connection: NatsConnection | undefined
  let ready: Promise<Wire> | undefined
  let prepareStore: ((store: StoreReady) => Promise<boolean>) | undefined
  /** Grows when what waits to be published must be asked for again. */
  let era = 0
  /** The last position that the stream has given to a message, as far as this program knows. */
  let lastSeq = 0
  let isOnline = false
  let offlineSince = performance.now()
  let wasAway = true
  let online = Promise.withResolvers<void>()
  let lost = new AbortController()
  const nowOnline = () => {
    isOnline = true
    online.resolve()
  }
  const nowOffline = () => {
    if (!isOnline) return
    isOnline = false
    offlineSince = performance.now()
    wasAway = true
    lost.abort()
    lost = new AbortController()
    online = Promise.withResolvers()
  }
  const isAway = () => !isOnline && performance.now() - offlineSince > PATIENCE_MS
  let connecting = open()

  async function open(): Promise<NatsConnection | undefined> {
    const nc = await connectForEver(options, closing.signal)
    connection = nc
    // The server may have lost the stream meanwhile.
    suspect()
    nowOnline()
    if (nc) void followStatus(nc)
    if (nc) void openAgain(nc)
    return nc
  }

  async function followStatus(nc: NatsConnection): Promise<void> {
    for await (const { type } of nc.status()) {
      if (type === 'disconnect') {
        log.warn('lost the event server')
        nowOffline()
      }
      if (type === 'reconnect') {
        log.info('the event server is back')
        // It may have lost the stream meanwhile.
        suspect()
        nowOnline()
      }
    }
  }

  async function openAgain(nc: NatsConnection): Promise<void> {
    const error = await nc.closed()
    if (closing.signal.aborted) return
    log.warn({ err: error }, 'the connection to the event server has ended: connecting again')
    nowOffline()
    connecting = open()
  }

  async function prepare(): Promise<Wire> {
    const nc = connection
    if (!nc) throw new Error('The event bus is closed')
    const { signal } = lost
    const jsm = await nc.jetstreamManager({ checkAPI: false, timeout: PATIENCE_MS })
    const made = await ensureStream(jsm, options.replicas ?? 1)
    const isBack = wasAway
    wasAway = false
    const isNewEra = await prepareStore?.({
      ...made,
      claim: (owner) => claimStream(jsm, owner),
      wasAway: isBack,
      hasStill: (stored) => hasStill(jsm, stored),
      async restart(consumers) {
        for (const consumer of consumers) await removeConsumer(jsm, consumer)
      },
    }).catch((error: unknown) => {
      wasAway ||= isBack
      throw error
    })
    if (isNewEra) era += 1
    lastSeq = 0
    return { jsm, js: nc.jetstream({ timeout: PATIENCE_MS }), lost: signal }
  }

  /** Shared by all callers. After any failure the next caller checks the streams again. */
  async function connected(): Promise<Wire> {
    // Callers hold places that others need: each waiting for itself would make this outage one of theirs.
    if (isAway()) throw new Error('The event server has been away for some time')
    // Requests sent without a connection are lost, and the client notices only at their timeout.
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
    return suspectOnError(work(await connected()))
  }

  async function suspectOnError<T>(work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      suspect()
      throw error
    }
  }

  async function publish(subject: string, event: CloudEvent, since = era): Promise<number> {
    checkSubject(subject)
    if (closing.signal.aborted) throw new Error('The event bus is closed')
    const data = JSON.stringify(event)
    const wire = await connected()
    if (era !== since) throw new Error('Other events may have to be published first')
    const before = lastSeq
    const options = { msgID: event.id, expect: { streamName: STREAM } }
    const { seq, duplicate } = await suspectOnError(wire.js.publish(subject, data, options))
    if (duplicate) return seq
    if (seq <= before) {
      suspect()
      throw new Error('The stream has gone back: other events may have to be published first')
    }
    lastSeq = Math.max(lastSeq, seq)
    return seq
  }

  async function subscribe(subscription: SubscribeOptions, handle: HandleBatch) {
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
    // Without a connection, drain() cannot drain and resolves without closing.
    if (isOnline) await within(nc.drain()).catch(() => undefined)
    await nc.close()
  }

  return {
    era: () => era,
    isAway,
    publish,
    subscribe,
    close,
    isShared: true,
    onStoreReady(prepare) {
      prepareStore = prepare
      suspect()
    },
    rewind(consumer, after) {
      checkConsumer(consumer)
      return onWire(({ jsm }) => rewindConsumer(jsm, { consumer, after }, options.ackWaitMs ?? ACK_WAIT_MS))
    },
    handledTo(consumer) {
      checkConsumer(consumer)
      return onWire(({ jsm }) => handledTo(jsm, consumer))
    },
    lag(consumer) {
      checkConsumer(consumer)
      return onWire(({ jsm }) => lagOf(jsm, consumer))
    },
    erase: (isTheirs, signal) => onWire((wire) => eraseMessages(wire, isTheirs, { signal })),
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

/** Splits the credentials off: the NATS client ignores credentials in addresses. */
function addressOf(url: string) {
  const urls = url.split(',').map((part) => new URL(part.trim()))
  const { username, password } = urls[0] ?? { username: '', password: '' }
  return {
    servers: urls.map((u) => u.host),
    ...(username !== '' && { user: decodeURIComponent(username), pass: decodeURIComponent(password) }),
    ...(urls.some((u) => u.protocol === 'tls:') && { tls: {} }),
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
