import type { Uuid } from '../../lib/contract/ids.ts'

/** The callers whose bodies one operation has lately agreed to read. */
export interface Admissions {
  /** Runs `decide` unless this caller was admitted to this organization a moment ago. Throws what it throws. */
  require(caller: Uuid, orgId: Uuid, decide: () => Promise<void>): Promise<void>
}

const FRESH_MS = 10_000
const MAX_KEPT = 2000

/**
 * Spares a row of writes the look-up before each body. Only whether the body is read depends on it: the handler decides
 * again, in its transaction, so a member who was removed a moment ago gets a slot for the body, and then the 404.
 */
export function openAdmissions(now: () => number = () => performance.now()): Admissions {
  // A Map keeps the order of insertion: the first entry is always the oldest.
  const admittedAt = new Map<string, number>()
  return {
    async require(caller, orgId, decide) {
      const key = `${caller} ${orgId}`
      const at = admittedAt.get(key)
      if (at !== undefined && now() - at < FRESH_MS) return
      admittedAt.delete(key)
      await decide()
      const oldest = admittedAt.size >= MAX_KEPT ? admittedAt.keys().next().value : undefined
      if (oldest !== undefined) admittedAt.delete(oldest)
      admittedAt.set(key, now())
    },
  }
}
