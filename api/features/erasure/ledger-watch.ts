import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../../../lib/runtime/log.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../../db/db.ts'
import { missingEntries } from './replay.ts'

export interface LedgerWatch {
  start(): void
  /** Once the database was seen to know the whole ledger; false when it is stopped before. */
  opened: Promise<boolean>
  /** Throws until the database was seen to know the whole ledger. */
  ready(): Promise<void>
  stop(): Promise<void>
}

export interface LedgerWatchOptions {
  db: Database
  store: ObjectStore
  log: Log
  /** The worker replays; the API only waits. */
  onMissing?(): Promise<void>
  againMs?: number
  everyMs?: number
}

/**
 * Compares the database with the ledger of erasures. A database that was restored from a backup knows less: until the
 * ledger is replayed, this process must not serve people who were erased. It reads the whole ledger at the start, and
 * every ten minutes, in case the database is restored behind a running program.
 */
export function openLedgerWatch(o: LedgerWatchOptions): LedgerWatch {
  const { log, againMs = 2_000, everyMs = 600_000 } = o
  const stopped = new AbortController()
  const { signal } = stopped
  let missing: number | undefined
  let running = Promise.resolve()
  const opened = Promise.withResolvers<boolean>()

  async function look(): Promise<void> {
    const found = await missingEntries(o)
    missing = found.length
    if (found.length === 0) return opened.resolve(true)
    log.error({ entries: found.length }, 'the database does not know all entries of the ledger of erasures')
    if (!o.onMissing) return
    await o.onMissing()
    missing = (await missingEntries(o)).length
    if (missing === 0) opened.resolve(true)
  }

  async function loop(): Promise<void> {
    while (!signal.aborted) {
      await look().catch((error: unknown) => {
        // Once it was seen, an outage of the store does not take every replica away.
        log.warn({ err: error }, 'could not read the ledger of erasures')
      })
      await sleep(missing === 0 ? everyMs : againMs, undefined, { signal, ref: false }).catch(() => {})
    }
  }

  return {
    opened: opened.promise,
    start() {
      running = loop()
    },
    async ready() {
      if (missing === undefined) throw new Error('the ledger of erasures was not read yet')
      if (missing > 0) throw new Error('the ledger of erasures is not replayed')
    },
    async stop() {
      stopped.abort()
      opened.resolve(false)
      await running
    },
  }
}
