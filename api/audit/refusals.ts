import type { Log } from '../../lib/runtime/log.ts'
import type { Database } from '../db/db.ts'
import { type AuditEntry, insertAudit } from './queries.ts'

/** A refusal. Refusals with the same key must have equivalent `details`: only those of the first are written. */
export type Refusal = Omit<AuditEntry, 'result'>

export interface Refusals {
  /**
   * Records a refusal. The first under a key is written before this resolves; repeats within ten minutes become one
   * more entry with `details.repeated`, so that a scanner cannot flood the log. Never rejects: the caller must still
   * refuse the request.
   */
  record(key: string, refusal: Refusal): Promise<void>
  /** Writes the counted repeats. */
  close(): Promise<void>
}

export interface RefusalOptions {
  windowMs?: number
  /** Maximum number of keys in memory. */
  most?: number
}

interface Counted {
  refusal: Refusal
  repeated: number
  since: number
}

/** Copies the refusal without its request, which would otherwise stay in memory as long as the entry. */
function detached(refusal: Refusal): Refusal {
  const { context } = refusal
  const kept = context && { requestId: context.requestId, ip: context.ip, userAgent: context.userAgent }
  return { ...refusal, context: kept }
}

/** Counts in memory: a killed process loses the number of repeats, never the first entry of a refusal. */
export function openRefusals(deps: { db: Database; log: Log }, options: RefusalOptions = {}): Refusals {
  const { windowMs = 600_000, most = 10_000 } = options
  // A Map keeps the order of insertion: the first entry is always the oldest.
  const counted = new Map<string, Counted>()
  const timer = setInterval(() => void writeOld(), Math.min(windowMs, 60_000)).unref()

  async function write(refusal: Refusal, repeated: number): Promise<void> {
    const details = repeated === 0 ? refusal.details : { ...refusal.details, repeated }
    const entry: AuditEntry = { ...refusal, result: 'denied', ...(details && { details }) }
    await deps.db
      .inTransaction({}, (tx) => insertAudit(tx, entry))
      .catch((error: unknown) => deps.log.error({ err: error, action: entry.action }, 'could not record a refusal'))
  }

  async function close(key: string, one: Counted): Promise<void> {
    counted.delete(key)
    if (one.repeated > 0) await write(one.refusal, one.repeated)
  }

  async function writeOld(now = performance.now()): Promise<void> {
    const old = [...counted].filter(([, one]) => now - one.since >= windowMs)
    for (const [key, one] of old) await close(key, one)
  }

  return {
    async record(key, refusal) {
      const known = counted.get(key)
      if (known && performance.now() - known.since < windowMs) {
        known.repeated += 1
        return
      }
      if (known) await close(key, known)
      const [oldest] = counted.size >= most ? counted : []
      counted.set(key, { refusal: detached(refusal), repeated: 0, since: performance.now() })
      if (oldest) await close(...oldest)
      await write(refusal, 0)
    },
    async close() {
      clearInterval(timer)
      for (const [key, one] of [...counted]) await close(key, one)
    },
  }
}
