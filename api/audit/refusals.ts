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
  if (!refusal.context) return refusal
  const { requestId, clientRequestId, ip, userAgent, personalData } = refusal.context
  return { ...refusal, context: { requestId, clientRequestId, ip, userAgent, personalData } }
}

/** Counts in memory: a killed process loses the number of repeats, never the first entry of a refusal. */
export function openRefusals(deps: { db: Database; log: Log }, options: RefusalOptions = {}): Refusals {
  const { windowMs = 600_000, most = 10_000 } = options
  // A Map keeps the order of insertion: the first entry is always the oldest.
  const counted = new Map<string, Counted>()
  let inBackground = Promise.resolve()
  const writeOld = () => {
    inBackground = inBackground.then(() => writeRepeats(take(isOld)))
  }
  const timer = setInterval(writeOld, Math.min(windowMs, 60_000)).unref()

  /** False if the entry could not be written. */
  async function write(refusal: Refusal, repeated: number): Promise<boolean> {
    const details = repeated === 0 ? refusal.details : { ...refusal.details, repeated }
    const entry: AuditEntry = { ...refusal, result: 'denied', ...(details && { details }) }
    try {
      await deps.db.inTransaction({}, (tx) => insertAudit(tx, entry))
      return true
    } catch (error) {
      deps.log.error({ err: error, action: entry.action, repeated }, 'could not record a refusal')
      return false
    }
  }

  // The map changes only between awaits: an entry that was taken out of it is counted on by no other call.
  function take(isOver: (one: Counted, key: string) => boolean): Counted[] {
    const taken = [...counted].filter(([key, one]) => isOver(one, key))
    for (const [key] of taken) counted.delete(key)
    return taken.map(([, one]) => one)
  }

  async function writeRepeats(taken: readonly Counted[]): Promise<void> {
    for (const { refusal, repeated } of taken) if (repeated > 0) await write(refusal, repeated)
  }

  const isOld = ({ since }: Counted) => performance.now() - since >= windowMs

  return {
    async record(key, refusal) {
      const known = counted.get(key)
      if (known && !isOld(known)) {
        known.repeated += 1
        return
      }
      const [oldest] = counted.keys()
      const given = known ? key : counted.size >= most ? oldest : undefined
      const taken = given === undefined ? [] : take((_, one) => one === given)
      const first: Counted = { refusal: detached(refusal), repeated: 0, since: performance.now() }
      counted.set(key, first)
      await writeRepeats(taken)
      // Without its first entry a refusal would never be told: the next one becomes the first.
      if (!(await write(refusal, 0)) && counted.get(key) === first) counted.delete(key)
    },
    async close() {
      clearInterval(timer)
      await inBackground
      await writeRepeats(take(() => true))
    },
  }
}
