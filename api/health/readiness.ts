import type { Database } from '../db/db.ts'

/** Whether this replica should receive requests. */
export interface Readiness {
  /** Throws while the server is stopping or the database does not respond. */
  ready(): Promise<void>
  /** Makes the replica not ready. */
  drain(): void
  draining(): boolean
}

const FRESH_MS = 1000

/** All probes and callers share one database check per second, and never two at once, because `/health` is public. */
/** `more`: what has to hold besides; it must be cheap. */
export function readiness(db: Pick<Database, 'check'>, more?: () => Promise<void>): Readiness {
  let stopping = false
  let last: { at: number; isOver: boolean; result: Promise<void> } | undefined

  function check(at: number) {
    const begun = { at, isOver: false, result: db.check() }
    const over = () => {
      begun.isOver = true
    }
    begun.result.then(over, over)
    return begun
  }

  return {
    async ready() {
      if (stopping) throw new Error('the server is stopping')
      const now = performance.now()
      if (!last || (last.isOver && now - last.at >= FRESH_MS)) last = check(now)
      await last.result
      await more?.()
    },
    drain() {
      stopping = true
    },
    draining: () => stopping,
  }
}
