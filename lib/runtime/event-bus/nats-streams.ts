import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import {
  AckPolicy,
  type ConsumerConfig,
  DeliverPolicy,
  type JetStreamManager,
  NatsError,
  nanos,
  ReplayPolicy,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from 'nats'
import { STREAM, STREAM_SUBJECTS } from '../../contract/events.ts'
import type { Lag, Stored, StoreReady, SubscribeOptions } from './event-bus.ts'

const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS

/** Events contain personal data, so no event is kept for longer than a week: this bounds the time to erase a person. */
const AGES = { max_age: nanos(7 * DAY_MS), duplicate_window: nanos(10 * MINUTE_MS) }

const STREAM_NAME_IN_USE = 10058
const SUBJECTS_OVERLAP = 10065
const NO_CONSUMER = 10014
const NO_MESSAGE = 10037
const ADD_ATTEMPTS = 20
const ADD_AGAIN_MS = 100

/**
 * In the description of the stream: a server before 2.10 keeps no metadata. Only what is written here, since the administrator's
 * own words may end alike.
 */
const OWNER = /\binstallation (\d{4}-\d\d-\d\dT\S+Z)$/
const ownerOf = ({ description }: StreamConfig): string | undefined => OWNER.exec(description ?? '')?.[1]

/**
 * Creates the stream, or updates the settings that this project owns, and tells when it was made, and for whom. Any number of
 * programs may do so at once.
 */
export async function ensureStream(
  jsm: JetStreamManager,
  replicas: number,
): Promise<Pick<StoreReady, 'createdAt' | 'owner'>> {
  const wanted = { subjects: STREAM_SUBJECTS, ...AGES }
  const storage = { storage: StorageType.File, retention: RetentionPolicy.Limits }
  const isThere = await addStream(jsm, { name: STREAM, ...storage, num_replicas: replicas, ...wanted })
  const { config, created } = await jsm.streams.info(STREAM)
  // Another one of that name differs. Replicas, limits and placement belong to the administrator and stay unchanged.
  const isWanted = isDeepStrictEqual({ ...config, ...wanted }, config)
  if (isThere && !isWanted) await jsm.streams.update(STREAM, { ...config, ...wanted })
  return { createdAt: new Date(created), owner: ownerOf(config) }
}

/** Throws where another installation has claimed the stream meanwhile. */
export async function claimStream(jsm: JetStreamManager, owner: string): Promise<void> {
  const { config } = await jsm.streams.info(STREAM)
  if (ownerOf(config) === undefined) {
    const description = [config.description, `installation ${owner}`].filter(Boolean).join(', ')
    await jsm.streams.update(STREAM, { ...config, description })
  }
  // An update has no condition: of two at once, the later one counts.
  const now = (await jsm.streams.info(STREAM)).config
  if (ownerOf(now) !== owner) throw new Error('The event stream belongs to another installation')
}

/** See `StoreReady`. */
export async function hasStill(jsm: JetStreamManager, stored: readonly Stored[]): Promise<boolean> {
  const { last_seq } = (await jsm.streams.info(STREAM)).state
  if (stored.some(({ seq }) => seq > last_seq)) return false
  const there = await Promise.all(stored.map(({ seq }) => messageIdAt(jsm, seq)))
  return stored.every(({ id }, i) => there[i] === undefined || there[i] === id)
}

/** Undefined where there is no message now. */
async function messageIdAt(jsm: JetStreamManager, seq: number): Promise<string | undefined> {
  try {
    return (await jsm.streams.getMessage(STREAM, { seq })).header.get('Nats-Msg-Id')
  } catch (error) {
    if (jsErrorCode(error) === NO_MESSAGE) return undefined
    throw error
  }
}

/** Adds a stream; true when another stream of that name already exists. */
async function addStream(jsm: JetStreamManager, config: Partial<StreamConfig>): Promise<boolean> {
  for (let attempt = 1; ; attempt++) {
    try {
      await jsm.streams.add(config)
      return false
    } catch (error) {
      const code = jsErrorCode(error)
      if (code === STREAM_NAME_IN_USE) return true
      // The server also answers this while another program is creating the same stream.
      if (code !== SUBJECTS_OVERLAP || attempt === ADD_ATTEMPTS) throw error
      await sleep(ADD_AGAIN_MS)
    }
  }
}

/**
 * Creates or updates the durable consumer. The client counts attempts, not the server's `max_deliver`: the server would
 * drop a message whose last attempt killed the process. Without a filter, also for a single type: the server moves a
 * consumer past what its filter leaves out, so that a type that a later version adds would be lost while this version has
 * the turn. With several subjects in a filter, it delivers a tenth where many aggregates have events.
 */
export async function ensureConsumer(
  jsm: JetStreamManager,
  { consumer }: Pick<SubscribeOptions, 'consumer'>,
  ackWaitMs: number,
): Promise<void> {
  const wanted = { ack_wait: nanos(ackWaitMs) }
  const found = await findConsumer(jsm, consumer)
  if (!found) {
    await addConsumer(jsm, consumer, { deliver_policy: DeliverPolicy.All, ...wanted })
    return
  }
  const { filter_subject, filter_subjects, ...rest } = found
  const isSame = !filter_subject && (filter_subjects ?? []).length === 0
  if (isSame && found.ack_wait === wanted.ack_wait) return
  await jsm.consumers.update(STREAM, consumer, { ...rest, ...NO_FILTERS, ...wanted })
}

async function addConsumer(jsm: JetStreamManager, name: string, config: Partial<ConsumerConfig>): Promise<void> {
  await jsm.consumers.add(STREAM, {
    durable_name: name,
    ack_policy: AckPolicy.Explicit,
    replay_policy: ReplayPolicy.Instant,
    max_deliver: -1,
    ...config,
  })
}

/** See `EventBus.rewind`. Its death before the end leaves no consumer, or the old one: the caller has not noted it yet. */
export async function rewindConsumer(
  jsm: JetStreamManager,
  { consumer, after }: { consumer: string; after: number },
  ackWaitMs: number,
): Promise<number> {
  await removeConsumer(jsm, consumer)
  const { last_seq } = (await jsm.streams.info(STREAM)).state
  const start =
    after > last_seq
      ? { deliver_policy: DeliverPolicy.All }
      : { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: after + 1 }
  await addConsumer(jsm, consumer, { ...start, ack_wait: nanos(ackWaitMs) })
  return last_seq
}

/** An update takes over what is not mentioned, and undefined is not sent. */
const NO_FILTERS = { filter_subject: undefined, filter_subjects: undefined } as unknown as Partial<ConsumerConfig>

/** The configuration of a consumer; undefined where there is none of that name. */
async function findConsumer(jsm: JetStreamManager, name: string): Promise<ConsumerConfig | undefined> {
  try {
    return (await jsm.consumers.info(STREAM, name)).config
  } catch (error) {
    if (jsErrorCode(error) === NO_CONSUMER) return undefined
    throw error
  }
}

/** The next subscription makes it again, which begins at the start of the stream. */
export async function removeConsumer(jsm: JetStreamManager, name: string): Promise<void> {
  try {
    await jsm.consumers.delete(STREAM, name)
  } catch (error) {
    if (jsErrorCode(error) !== NO_CONSUMER) throw error
  }
}

/** See `EventBus.handledTo`. */
export async function handledTo(jsm: JetStreamManager, name: string): Promise<number> {
  try {
    return (await jsm.consumers.info(STREAM, name)).ack_floor.stream_seq
  } catch (error) {
    if (jsErrorCode(error) === NO_CONSUMER) return 0
    throw error
  }
}

/** What a consumer has not acknowledged, with the age of the oldest. */
export async function lagOf(jsm: JetStreamManager, consumer: string): Promise<Lag> {
  const { num_pending, num_ack_pending, ack_floor, config } = await jsm.consumers.info(STREAM, consumer)
  const messages = num_pending + num_ack_pending
  if (messages === 0) return { messages, oldestSeconds: 0 }
  const after = { seq: ack_floor.stream_seq + 1, next_by_subj: config.filter_subject ?? 'memory.v1.>' }
  try {
    const { time } = await jsm.streams.getMessage(STREAM, after)
    return { messages, oldestSeconds: Math.max(0, (Date.now() - time.getTime()) / 1000) }
  } catch (error) {
    // Acknowledged or deleted since.
    if (jsErrorCode(error) === NO_MESSAGE) return { messages: 0, oldestSeconds: 0 }
    throw error
  }
}

export const jsErrorCode = (error: unknown): number | undefined =>
  error instanceof NatsError ? error.api_error?.err_code : undefined
