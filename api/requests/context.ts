import type { Log } from '../../lib/runtime/log.ts'
import type { Origin } from '../audit/queries.ts'
import type { Tx } from '../db/db.ts'

/** What every handler knows about its request. */
export interface Context extends Origin {
  traceparent: string | null
  /** Aborted when the client disconnects. */
  signal: AbortSignal
  log: Log
  /** Notes that the permission service has decided on this request. */
  decided(): void
  /**
   * Stores the response under the request's Idempotency-Key, if it has one, in the transaction of its effect, so that a
   * repeat has no second effect; and counts the effect where the limits of the operation count effects. Throws to refuse it.
   * Commands of POST operations call it last in their transaction.
   */
  remember(tx: Tx, status: number, data: unknown): Promise<void>
}
