import { hash } from 'node:crypto'
import { getTableName } from 'drizzle-orm'
import type pg from 'pg'
import { RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible'
import type { Log } from '../../lib/runtime/log.ts'
import { rateLimits } from '../db/schema/limits.ts'
import type { ScaledLimit, Standing } from './policy.ts'

export interface SharedCounters {
  /** Counts one request under a key. Undefined when Postgres does not say in time where the caller stands. */
  counter(name: string, limit: ScaledLimit): (key: string) => Promise<Standing | undefined>
}

export interface SharedOptions {
  pool: pg.Pool
  log: Log
  now: () => number
  /** How long a request waits for Postgres at most. */
  timeoutMs?: number
  /** How long Postgres is not asked again after it failed, so that an outage delays few requests. */
  pauseMs?: number
}

/** Counts over all replicas: so many requests in a window that begins with the first one. */
export function openSharedCounters(o: SharedOptions): SharedCounters {
  const { pool, log, now, timeoutMs = 500, pauseMs = 5000 } = o
  let askAgainAt = Number.NEGATIVE_INFINITY
  let isTidied = false

  function away(error: unknown): undefined {
    // Requests that were under way together fail together; one line says it.
    if (now() >= askAgainAt) log.warn({ err: error }, 'rate limits are not shared: counting in this process alone')
    askAgainAt = now() + pauseMs
    return undefined
  }

  return {
    counter(name, { quota, seconds }) {
      const limiter = new RateLimiterPostgres({
        storeClient: pool,
        storeType: 'pool',
        tableName: getTableName(rateLimits),
        tableCreated: true,
        keyPrefix: name,
        points: quota,
        duration: seconds,
        // One of them is enough to delete what has expired.
        clearExpiredByTimeout: !isTidied,
      })
      isTidied = true
      return async (key) => {
        if (now() < askAgainAt) return undefined
        try {
          return standingOf(await inTime(limiter.consume(keyOf(key)), timeoutMs))
        } catch (error) {
          return error instanceof RateLimiterRes ? refusalOf(error) : away(error)
        }
      }
    },
  }
}

/** Keys are made of addresses of people; the table needs to tell them apart, not to know them. */
const keyOf = (key: string) => hash('sha256', key, 'base64url')

const standingOf = ({ remainingPoints, msBeforeNext }: RateLimiterRes): Standing => ({
  retryAfterMs: 0,
  remaining: remainingPoints,
  resetMs: msBeforeNext,
})

const refusalOf = ({ msBeforeNext }: RateLimiterRes): Standing => ({
  retryAfterMs: Math.max(1, msBeforeNext),
  remaining: 0,
  resetMs: msBeforeNext,
})

/** The query itself goes on, and counts if it comes through after all. */
async function inTime<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`Postgres did not count within ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
    work.catch(() => {})
  }
}
