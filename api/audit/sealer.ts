import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { type AnchorDeps, anchor } from './anchors.ts'
import { noticeRestore } from './restores.ts'
import { type SealDeps, sealOnce } from './seal.ts'
import { countDaysAhead, countSealed, countUnanchored, measureOldestWriter, measureSeal } from './seal-queries.ts'

export interface Sealer {
  /** Resolves after the pass that runs. */
  stop(): Promise<void>
}

/**
 * Seals what was committed, again and again, and anchors it in the object store. No change waits for it. Any number may run
 * against one database: one of them works.
 */
export function startSealer(deps: SealDeps & AnchorDeps & { log: Log }, { pollMs = 1000 } = {}): Sealer {
  const { log } = deps
  const stopped = new AbortController()
  /** In a row, by what failed: one that works must not hide another that does not. */
  const outages = new Map<string, number>()
  /** The links of this database when it was last compared with its anchors, or sealed by this process. */
  let known: number | undefined

  async function attempt(what: string, work: () => Promise<unknown>): Promise<boolean> {
    try {
      await work()
      outages.delete(what)
      return true
    } catch (error) {
      const inARow = (outages.get(what) ?? 0) + 1
      outages.set(what, inARow)
      log.warn({ err: error, outages: inARow }, `could not ${what} the audit log`)
      return false
    }
  }

  /**
   * Before anything is sealed: new links would make up for those that a restore lost. While the object store does not
   * answer, a database that has not fewer links than before is still the same one.
   */
  async function check(): Promise<void> {
    const links = await deps.db.read({}, countSealed)
    const isSame = known !== undefined && links >= known
    if (!isSame) known = undefined
    try {
      await noticeRestore(deps)
      known = links
    } catch (error) {
      if (!isSame) throw error
      log.warn({ err: error }, 'could not compare the audit log with its anchors')
    }
  }

  async function seal(): Promise<void> {
    while (!stopped.signal.aborted && (await sealOnce(deps)) === 'more') failpoint('audit.sealed')
    known = await deps.db.read({}, countSealed)
  }

  async function loop(): Promise<void> {
    while (!stopped.signal.aborted) {
      const isChecked = await attempt('check', check)
      if (stopped.signal.aborted) return
      if (isChecked) await attempt('seal', seal)
      if (stopped.signal.aborted) return
      if (isChecked) await attempt('anchor', () => anchor(deps))
      await pause(Math.min(30_000, pollMs * 2 ** Math.min(Math.max(0, ...outages.values()), 5)))
    }
  }

  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      if (stopped.signal.aborted) return resolve()
      const timer = setTimeout(done, ms)
      function done() {
        clearTimeout(timer)
        stopped.signal.removeEventListener('abort', done)
        resolve()
      }
      stopped.signal.addEventListener('abort', done)
    })

  const running = loop()
  return {
    async stop() {
      stopped.abort()
      await running
    },
  }
}

/** For the metrics of the worker. */
export const SEAL_GAUGES = [
  {
    name: 'audit_seal_behind_seconds',
    help: 'Age of the oldest audit entry that is not sealed; NaN when the database does not answer',
    read: measureSeal,
  },
  {
    name: 'audit_oldest_writer_seconds',
    help: 'Age of the oldest transaction that writes, in any database of the cluster: the seal of the audit log waits for it',
    read: measureOldestWriter,
  },
  {
    name: 'audit_days_ahead',
    help: 'Days after today that have their partitions in the audit log; a change of a day without one fails',
    read: countDaysAhead,
  },
  {
    name: 'audit_days_unanchored',
    help: 'Closed days of the audit log whose anchor is not in the object store',
    read: countUnanchored,
  },
]
