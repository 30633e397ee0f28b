import { type ScaledLimit, type Standing, takeToken } from './policy.ts'

export interface Buckets {
  take(key: string): Standing
  /** How many keys are remembered. */
  size(): number
}

const MOST_KEYS = 20_000

/**
 * The token buckets of one limit in this process. Bounded: beyond `mostKeys` the bucket that was used longest ago is
 * forgotten, and counts as full. A client that is being refused uses its own all the time, so it cannot be that one.
 */
export function openBuckets(limit: ScaledLimit, now: () => number, mostKeys = MOST_KEYS): Buckets {
  // A Map keeps the order of insertion: every use inserts anew, so the first key is the one unused for longest.
  const fullAt = new Map<string, number>()

  /** Two at a time, so that keys go faster than they come. */
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
    size: () => fullAt.size,
  }
}
