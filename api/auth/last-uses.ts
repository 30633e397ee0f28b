import type { Uuid } from '../../lib/contract/ids.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { LastUse } from './session-queries.ts'

/** When and from where sessions were last used: kept here and written in batches. A crash loses less than a minute. */
export interface LastUses {
  note(userId: Uuid, sessionId: Uuid, ip: string): void
  /** Writes what is left. */
  close(): Promise<void>
}

export interface LastUsesOptions {
  save(uses: readonly LastUse[]): Promise<void>
  log: Log
  timing?: Partial<typeof TIMING>
}

const TIMING = {
  /** A session is written at most so often, except when its address changes. */
  againMs: 60_000,
  writeMs: 15_000,
}
const MAX_KEPT = 20_000
const BATCH = 500

export function openLastUses({ save, log, timing }: LastUsesOptions): LastUses {
  const { againMs, writeMs } = { ...TIMING, ...timing }
  // A Map keeps the order of insertion: the first entry is always the oldest.
  const noted = new Map<Uuid, { ip: string; at: number }>()
  let unwritten = new Map<Uuid, LastUse>()
  let writing: Promise<void> | undefined
  const timer = setInterval(() => {
    writing ??= write().finally(() => {
      writing = undefined
    })
  }, writeMs).unref()

  async function write(): Promise<void> {
    const uses = [...unwritten.values()]
    unwritten = new Map()
    for (let at = 0; at < uses.length; at += BATCH) {
      // It is not worth a second attempt: the next use comes.
      await save(uses.slice(at, at + BATCH)).catch((error) =>
        log.warn({ err: error }, 'could not write when sessions were last used'),
      )
    }
  }

  return {
    note(userId, id, ip) {
      const last = noted.get(id)
      const now = performance.now()
      if (last && last.ip === ip && now - last.at < againMs) return
      noted.delete(id)
      const oldest = noted.size >= MAX_KEPT ? noted.keys().next().value : undefined
      if (oldest !== undefined) noted.delete(oldest)
      noted.set(id, { ip, at: now })
      if (unwritten.size < MAX_KEPT) unwritten.set(id, { userId, id, ip })
    },
    async close() {
      clearInterval(timer)
      await writing
      await write()
    },
  }
}
