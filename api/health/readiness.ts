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

/** All probes and callers share one database check per second, because `/health` is public. */
export function readiness(db: Pick<Database, 'check'>): Readiness {
  let stopping = false
  let last: { at: number; result: Promise<void> } | undefined
  return {
    async ready() {
      if (stopping) throw new Error('the server is stopping')
      const now = performance.now()
      if (!last || now - last.at >= FRESH_MS) last = { at: now, result: db.check() }
      await last.result
    },
    drain() {
      stopping = true
    },
    draining: () => stopping,
  }
}
