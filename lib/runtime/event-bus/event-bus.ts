import type { CloudEvent } from '../../contract/events.ts'

export interface Delivery {
  /** Undefined where the message is not a CloudEvent. */
  event: CloudEvent | undefined
  subject: string
  /** The position in the stream, 0 in process. A stream that was made anew counts from 1 again. */
  seq: number
  /** 1 for the first delivery. It grows with deliveries that ended without an answer, too. */
  attempt: number
  /** The message as it arrived. */
  text(): string
}

export interface SubscribeOptions {
  /** Durable name: the bus keeps the position in the stream under it. */
  consumer: string
  /**
   * Event types to deliver; all others that this version knows are skipped. What is not a CloudEvent is delivered, and an
   * event of a type that this version does not know.
   */
  types: readonly string[]
  /** Maximum number of messages that the handler gets at a time; 100 by default. */
  batch?: number
  /** After each batch, before it is acknowledged: all messages up to `seq` are handled or skipped. Not called in process. */
  passed?(seq: number): Promise<void>
}

/** Resolves when all messages of the batch are dealt with. `signal` aborts when the subscription stops. */
export type HandleBatch = (batch: Delivery[], signal: AbortSignal) => Promise<void>

/** Whether a stored message is to be erased. */
export type IsTheirs = (message: { subject: string; text: string }) => boolean

/** Thrown by a handler for an event that no retry can help. */
export class PoisonMessage extends Error {
  override readonly name = 'PoisonMessage'
}

/** A message as the stream has stored it. */
export interface Stored {
  /** Of the event. */
  id: string
  seq: number
}

export interface StoreReady {
  /** The installation that has claimed the stream. */
  owner: string | undefined
  claim(owner: string): Promise<void>
  /** When the stream was made; another time than before means that it was lost and made again. */
  createdAt: Date
  /**
   * Whether the stream has these messages where it once stored them. If not, an older copy of it was put back. What its
   * limits, or people, have deleted since does not count as missing.
   */
  hasStill(stored: readonly Stored[]): Promise<boolean>
  /** Has consumers begin anew at the start of the stream. */
  restart(consumers: readonly string[]): Promise<void>
  /** Whether the server may have been away since the last call. */
  wasAway: boolean
}

export interface Lag {
  messages: number
  /** Since the bus has stored the oldest of them; 0 without any. */
  oldestSeconds: number
}

/**
 * Carries domain events whose transaction has committed. At least once; per aggregate in version order as far as the
 * relay allows; no global order. Implemented in process and on NATS JetStream; both pass
 * `test/support/event-bus-contract.ts`.
 */
export interface EventBus {
  /** Whether subscribers in several processes share the position of a consumer: then one of them at a time may subscribe. */
  readonly isShared: boolean
  /**
   * Grows when events that were published before may have to be published again. Read it before what decides which
   * events come first, and pass it to `publish`.
   */
  era(): number
  /** Whether the server has been away for so long that `publish` fails at once. */
  isAway(): boolean
  /**
   * Resolves once the bus has stored the event. The bus drops a duplicate id within its deduplication window, and refuses
   * an event of an earlier era than the present one: others may have to go first. Returns the position in the stream;
   * undefined in process.
   */
  publish(subject: string, event: CloudEvent, era?: number): Promise<number | undefined>
  /**
   * Hands over batches in the order of the stream, one after the other. Acknowledges the messages of a batch when the
   * handler returns, and delivers them again when it throws. Returns a stop function that waits for the running handler.
   */
  subscribe(options: SubscribeOptions, handle: HandleBatch): Promise<() => Promise<void>>
  /**
   * `prepare` runs whenever the stream is ready after a start or a failure, before anything else is published; if it
   * throws, the bus is not ready. True: the bus refuses what has been waiting to be published, because other events may
   * have to go first. A bus in process, which stores nothing, never calls it.
   */
  onStoreReady(prepare: (store: StoreReady) => Promise<boolean>): void
  /**
   * Has a consumer that has no subscription begin anew behind the position `after`; at the start of a stream that does not
   * reach so far. Returns the last position of the stream; 0 in process.
   */
  rewind(consumer: string, after: number): Promise<number>
  /** Up to where a consumer has dealt with the stream; 0 without such a consumer, and in process. */
  handledTo(consumer: string): Promise<number>
  /** What waits for a consumer, with what is under way; undefined where the bus does not store any message. */
  lag(consumer: string): Promise<Lag | undefined>
  /**
   * Removes stored messages that `isTheirs` recognizes, also from the disk of the server, and returns how many. It looks at
   * every message that was stored when it began, or throws. A bus that stores nothing finds none.
   */
  erase(isTheirs: IsTheirs, signal?: AbortSignal): Promise<number>
  /** Throws when the bus cannot be reached. */
  check(): Promise<void>
  close(): Promise<void>
}
