import type { EventType, ReceivedEvent } from '../../../lib/contract/events.ts'
import type { Tx } from '../../db/db.ts'

/**
 * What a feature does with the events of the stream. The worker hands it batches, one after the other and one at a time
 * in all replicas; the events of an aggregate in the order of its versions, apart from repeats.
 */
export interface Consumer {
  /** The durable name in the stream and in the inbox. It never changes: another name begins with all events anew. */
  name: string
  types: readonly EventType[]
  /**
   * Writes the effects of the events, which no batch before has had, by statements for all of them at once. The
   * transaction marks the events as handled, and commits both or neither. After a failure the worker hands over the
   * halves of the batch, to find the event that causes it. PoisonMessage: no retry can help.
   */
  handle(tx: Tx, events: readonly ReceivedEvent[]): Promise<void>
  /** After the commit, for what a later run would find by itself, such as a sender to wake. */
  committed?(): void
}
