import { STREAM } from '../../../lib/contract/events.ts'
import type { EventBus } from '../../../lib/runtime/event-bus/event-bus.ts'
import type { Log } from '../../../lib/runtime/log.ts'
import type { Database, Tx } from '../../db/db.ts'
import { TurnLost } from './failure.ts'
import { findPosition, hasTurn, keepPosition, movePosition } from './queries.ts'
import type { Turn } from './turns.ts'

/** An older position only has messages looked at again that the inbox knows. */
const KEEP_MS = 5000

export interface PositionDeps {
  db: Database
  bus: Pick<EventBus, 'rewind' | 'handledTo'>
  log: Log
}

export interface Position {
  /** See `Handling`. */
  unconfirmedTo: number
  /** All messages up to `seq` are dealt with. */
  passed(seq: number): Promise<void>
}

/**
 * Has a consumer go on where its effects end in the database, if the history of the database has changed since. A standby
 * that was promoted may lack the latest transactions of the primary, and so may a backup: the effects of events, and the
 * rows that say that they were handled. The stream has these events as acknowledged, and within its deduplication window
 * it drops what the relay publishes again.
 */
export async function resume({ db, bus, log }: PositionDeps, consumer: string, turn: Turn): Promise<Position> {
  const inTurn = <T>(work: (tx: Tx) => Promise<T>) =>
    db.inTransaction({}, async (tx) => {
      const result = await work(tx)
      if (!(await hasTurn(tx, consumer, turn.pid))) throw new TurnLost(`${consumer}: another process has the turn`)
      return result
    })
  const { history } = turn
  // Not on a connection that still leads to the primary of before, which may be further.
  const known = await inTurn((tx) => findPosition(tx, consumer))
  let unconfirmedTo = known?.unconfirmedTo ?? 0
  const first = known ? 0 : await bus.handledTo(consumer)
  if (known && known.history !== history) {
    unconfirmedTo = await bus.rewind(consumer, known.seq)
    log.warn(
      { consumer, stream: STREAM, before: known.history, now: history, after: known.seq },
      'the history of the database has changed: the consumer goes on where its effects end',
    )
  }
  // After the rewind: a process that dies in between leaves it to the next one.
  if (known?.history !== history)
    await inTurn(async (tx) => keepPosition(tx, consumer, { history, seq: known?.seq ?? first, unconfirmedTo }))
  let keptAt = Number.NEGATIVE_INFINITY
  return {
    unconfirmedTo,
    async passed(seq) {
      if (performance.now() - keptAt < KEEP_MS) return
      keptAt = performance.now()
      try {
        await inTurn((tx) => movePosition(tx, consumer, seq))
      } catch (error) {
        log.warn({ err: error, consumer }, 'could not keep the position of a consumer')
      }
    },
  }
}
