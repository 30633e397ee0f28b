import { countedAddress } from '../../lib/contract/counted-address.ts'
import type { Uuid } from '../../lib/contract/ids.ts'
import { Problem } from '../../lib/contract/problem.ts'
import type { Tx } from '../db/db.ts'
import { openBuckets } from './buckets.ts'
import type { Limit } from './classes.ts'
import { secondsUntil } from './headers.ts'
import { scaled } from './policy.ts'
import { addPoints } from './queries.ts'

/** What one request uses of a limit that is not counted in requests. Throws Problem RATE_LIMITED. */
export type TakePoints = (tx: Tx, userId: Uuid, points: number) => Promise<void>

/**
 * Counts within the transaction of the change, so that a change that fails or is refused counts nothing, and of several
 * at once each finds what those before it took. The row stays locked until the transaction ends: call it last.
 */
export function countedPoints(name: string, limit: Limit, factor: number): TakePoints {
  return async (tx, userId, points) => {
    if (points === 0 || factor === 0) return
    const { quota, seconds } = scaled(limit, factor)
    const { taken, msLeft } = await addPoints(tx, { name, key: userId, points, seconds })
    if (taken <= quota) return
    throw new Problem('RATE_LIMITED', `Too many at once: at most ${quota} in ${seconds} seconds.`, {
      retryAfter: secondsUntil(msLeft),
    })
  }
}

/** Counts what one address asks for, in this process: addresses are not stored. Throws Problem RATE_LIMITED. */
export type TakeOfAddress = (ip: string) => void

export function countedByAddress(limit: Limit, factor: number): TakeOfAddress {
  if (factor === 0) return () => {}
  const buckets = openBuckets(scaled(limit, factor), () => performance.now())
  return (ip) => {
    const { retryAfterMs } = buckets.take(countedAddress(ip))
    if (retryAfterMs === 0) return
    throw new Problem('RATE_LIMITED', 'Too many requests. Please slow down.', {
      retryAfter: secondsUntil(retryAfterMs),
    })
  }
}
