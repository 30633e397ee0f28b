import type { CloudEvent } from '../../contract/events.ts'

export interface Delivery {
  event: CloudEvent
  /** 1 for the first delivery, more for a redelivery. */
  attempt: number
}

export interface SubscribeOptions {
  /** Durable name: the bus keeps the position in the stream under it, and consumers of the same name share the work. */
  consumer: string
  /** Event types to deliver; all others are skipped. */
  types: readonly string[]
  /** Attempts before a message becomes a dead letter. */
  maxDeliver?: number
  /** Milliseconds before attempt 2, 3, …; the last one repeats. */
  backoffMs?: readonly number[]
}

/** Thrown by a handler for a message that no redelivery can help: it becomes a dead letter at once. */
export class PoisonMessage extends Error {
  override readonly name = 'PoisonMessage'
}

/**
 * Carries domain events whose transaction has committed. At least once; per aggregate in version order as far as the
 * relay allows; no global order. Implemented in process and on NATS JetStream; both pass
 * `test/support/event-bus-contract.ts`.
 */
export interface EventBus {
  /** Resolves once the bus has stored the event. The bus drops a duplicate id within its deduplication window. */
  publish(subject: string, event: CloudEvent): Promise<void>
  /**
   * Acknowledges a message when the handler returns and redelivers it later when the handler throws. Returns a stop
   * function that waits for running handlers.
   */
  subscribe(options: SubscribeOptions, handle: (d: Delivery) => Promise<void>): Promise<() => Promise<void>>
  /** The dead letters of a consumer, oldest first; for administrators and tests. */
  deadLetters(consumer: string): Promise<CloudEvent[]>
  /** Throws when the bus cannot be reached. */
  check(): Promise<void>
  close(): Promise<void>
}
