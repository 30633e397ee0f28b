import type { Database } from '../db/db.ts'

/** Whether requests should be sent here. */
export interface Readiness {
  /** Throws while the server is stopping or the database does not answer. */
  ready(): Promise<void>
  /** From now on not ready. */
  drain(): void
  draining(): boolean
}

const FRESH_MS = 1000

/** Many probes and visitors share one look at the database per second: `/health` is public. */
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
