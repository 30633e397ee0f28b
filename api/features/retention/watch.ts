import type { Database } from '../../db/db.ts'

/** Longer than anything takes that ends at all: requests to the store and to the database have deadlines of minutes. */
export const STALL_MS = 3_600_000
const TICKS = 60

/** Tells a process that hangs from one that is slow. */
export interface Watch {
  /** Something has come to an end, well or badly. */
  beat(): void
  /** Waits for a promise that may take as long as it likes, such as the turn of many bytes. */
  patiently(wait: Promise<void>): Promise<void>
  /** Aborted when nothing has come to an end for so long. */
  stalled: AbortSignal
}

export function openWatch(stallMs: number): Watch & { close(): void } {
  let ticks = 0
  let patient = 0
  const stall = new AbortController()
  // Ticks and not the time: a process that was frozen, or whose machine slept, has not hung.
  const timer = setInterval(() => {
    ticks = patient > 0 ? 0 : ticks + 1
    if (ticks >= TICKS) stall.abort(new Error('stalled'))
  }, stallMs / TICKS)
  function beat(): void {
    ticks = 0
  }
  return {
    beat,
    async patiently(wait) {
      patient += 1
      await wait.finally(() => {
        patient -= 1
        beat()
      })
    },
    stalled: stall.signal,
    close: () => clearInterval(timer),
  }
}

/** A database of which each answer is a sign of life. */
export function watched(db: Database, { beat }: Watch): Database {
  return {
    ...db,
    inTransaction: (scope, work) => db.inTransaction(scope, work).finally(beat),
    read: (scope, work) => db.read(scope, work).finally(beat),
  }
}
