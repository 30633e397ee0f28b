import { type ScaledLimit, type Standing, takeToken } from './policy.ts'

export interface Buckets {
  take(key: string): Standing
  /** As it is, taking nothing: nothing is refused. */
  look(key: string): Standing
  /** Whether a token could be taken, taking none. */
  peek(key: string): Standing
  /** Number of keys in memory. */
  size(): number
}

const MAX_KEYS = 20_000

/**
 * The token buckets of one limit in this process. Bounded: beyond `mostKeys` the least recently used bucket is dropped
 * and counts as full. A client that is being refused uses its bucket all the time, so its bucket stays.
 */
export function openBuckets(limit: ScaledLimit, now: () => number, mostKeys = MAX_KEYS): Buckets {
  // A Map keeps the order of insertion and every use reinserts, so the first key is the least recently used.
  const fullAt = new Map<string, number>()

  /** Deletes up to two full buckets per request, so that keys are deleted faster than added. */
  function forgetFull(at: number): void {
    let looked = 0
    for (const [key, moment] of fullAt) {
      if (moment > at || looked++ === 2) break
      fullAt.delete(key)
    }
  }

  return {
    take(key) {
      const at = now()
      const taken = takeToken(limit, fullAt.get(key), at)
      fullAt.delete(key)
      forgetFull(at)
      const oldest = fullAt.size >= mostKeys ? fullAt.keys().next().value : undefined
      if (oldest !== undefined) fullAt.delete(oldest)
      fullAt.set(key, taken.fullAt)
      return taken.standing
    },
    look(key) {
      const { standing } = takeToken(limit, fullAt.get(key), now())
      return { ...standing, retryAfterMs: 0 }
    },
    peek(key) {
      const at = now()
      const { standing } = takeToken(limit, fullAt.get(key), at)
      if (standing.retryAfterMs > 0) return standing
      return { ...standing, remaining: standing.remaining + 1, resetMs: Math.max(0, (fullAt.get(key) ?? at) - at) }
    },
    size: () => fullAt.size,
  }
}
