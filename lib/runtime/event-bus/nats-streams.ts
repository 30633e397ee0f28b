import { setTimeout as sleep } from 'node:timers/promises'
import {
  AckPolicy,
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
import type { SubscribeOptions } from './event-bus.ts'

export const DEAD_STREAM = 'MEMORY_DLQ'
export const deadSubject = (consumer: string) => `memory-dlq.${consumer}`

const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS

/** Events contain personal data, so no event is kept for longer than a week: this bounds the time to erase a person. */
const AGES = { max_age: nanos(7 * DAY_MS), duplicate_window: nanos(10 * MINUTE_MS) }

const STREAM_NAME_IN_USE = 10058
const SUBJECTS_OVERLAP = 10065
const ADD_ATTEMPTS = 20
const ADD_AGAIN_MS = 100

/** Creates the streams, or updates the settings that this project owns. Any number of programs may do so at once. */
export async function ensureStreams(jsm: JetStreamManager, replicas: number): Promise<void> {
  await ensureStream(jsm, STREAM, STREAM_SUBJECTS, replicas)
  await ensureStream(jsm, DEAD_STREAM, [deadSubject('*')], replicas)
}

async function ensureStream(jsm: JetStreamManager, name: string, subjects: string[], replicas: number): Promise<void> {
  const wanted = { subjects, ...AGES }
  const storage = { storage: StorageType.File, retention: RetentionPolicy.Limits }
  const isThere = await addStream(jsm, { name, ...storage, num_replicas: replicas, ...wanted })
  if (!isThere) return
  // It exists and differs. Replicas, limits and placement belong to the administrator and stay unchanged.
  const { config } = await jsm.streams.info(name)
  await jsm.streams.update(name, { ...config, ...wanted })
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
 * Creates or updates the durable consumer. The client counts and delays attempts, not the server's `max_deliver` and
 * `backoff`: the server would drop a message whose last attempt killed the process without a dead letter, and its
 * backoff would replace ack_wait.
 */
export async function ensureConsumer(
  jsm: JetStreamManager,
  options: SubscribeOptions,
  ackWaitMs: number,
): Promise<void> {
  const only = options.types.length === 1 ? options.types[0] : undefined
  await jsm.consumers.add(STREAM, {
    durable_name: options.consumer,
    ack_policy: AckPolicy.Explicit,
    deliver_policy: DeliverPolicy.All,
    replay_policy: ReplayPolicy.Instant,
    ack_wait: nanos(ackWaitMs),
    max_deliver: -1,
    // Old servers support one filter per consumer; for several types the client skips the others.
    ...(only !== undefined && { filter_subject: `memory.v1.*.*.*.${only}` }),
  })
}

export const jsErrorCode = (error: unknown): number | undefined =>
  error instanceof NatsError ? error.api_error?.err_code : undefined
