import type { CloudEvent } from '../contract/events.ts'

export interface Delivery {
  event: CloudEvent
  /** 1 at first, more when delivered again. */
  attempt: number
}

export interface SubscribeOptions {
  /** Durable name: the place in the stream is kept under it, and consumers with the same name share the work. */
  consumer: string
  /** Event types wanted; everything else is skipped. */
  types: readonly string[]
  /** Attempts before a message is put aside as a dead letter. */
  maxDeliver?: number
  /** Milliseconds before attempt 2, 3, …; the last one repeats. */
  backoffMs?: readonly number[]
}

/** Thrown by a handler for a message that no repetition can help: it goes to the dead letters at once. */
export class PoisonMessage extends Error {
  override readonly name = 'PoisonMessage'
}

/**
 * Where domain events go when their transaction has committed. At least once; per aggregate in version order as far as
 * the relay allows, no global order. In-process and NATS JetStream implement it; both pass `test/lib/runtime/event-bus.ts`.
 */
export interface EventBus {
  /** Resolves once the bus has stored the event. The same id again within the window is dropped by the bus. */
  publish(subject: string, event: CloudEvent): Promise<void>
  /** A handler that throws gets the message again, later; one that returns has it acknowledged. Returns a stopper that waits for running handlers. */
  subscribe(options: SubscribeOptions, handle: (d: Delivery) => Promise<void>): Promise<() => Promise<void>>
  /** Messages put aside for a consumer, oldest first: for admins and tests. */
  deadLetters(consumer: string): Promise<CloudEvent[]>
  /** Throws when the bus cannot be reached. */
  check(): Promise<void>
  close(): Promise<void>
}
