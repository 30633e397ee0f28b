import { hash } from 'node:crypto'
import type pg from 'pg'
import { RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible'
import type { Log } from '../../lib/runtime/log.ts'
import type { Tx } from '../db/db.ts'
import { getTableName, sql } from '../db/orm.ts'
import { rateLimits } from '../db/schema/limits.ts'
import type { ScaledLimit, Standing } from './policy.ts'

export interface SharedCounters {
  /** Counts one request under a key. Undefined if Postgres does not respond in time. */
  counter(name: string, limit: ScaledLimit): SharedCounter
}

export interface SharedCounter {
  (key: string): Promise<Standing | undefined>
  /** Where the key stands, counting nothing: refused if its quota is used up. */
  look(key: string): Promise<Standing | undefined>
}

export interface SharedOptions {
  pool: pg.Pool
  log: Log
  now: () => number
  /** Maximum time that a request waits for Postgres. */
  timeoutMs?: number
  /** Time after a failure during which requests skip Postgres, so that an outage delays few of them. */
  pauseMs?: number
}

/** Counts over all replicas: `quota` requests in a window that begins with the first one. */
export function openSharedCounters(o: SharedOptions): SharedCounters {
  const { pool, log, now, timeoutMs = 500, pauseMs = 5000 } = o
  let askAgainAt = Number.NEGATIVE_INFINITY
  let isTidied = false

  function away(error: unknown): undefined {
    // Concurrent requests fail together; log one line for all.
    if (now() >= askAgainAt) log.warn({ err: error }, 'rate limits are not shared: each replica counts alone')
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
        // One limiter is enough to delete the expired rows of all.
        clearExpiredByTimeout: !isTidied,
      })
      isTidied = true
      const asked = async (work: () => Promise<Standing>): Promise<Standing | undefined> => {
        if (now() < askAgainAt) return undefined
        try {
          return await inTime(work(), timeoutMs)
        } catch (error) {
          return error instanceof RateLimiterRes ? refusalOf(error) : away(error)
        }
      }
      return Object.assign((key: string) => asked(async () => standingOf(await limiter.consume(keyOf(key)))), {
        look: (key: string) =>
          asked(async () => {
            const found = await limiter.get(keyOf(key))
            if (!found) return { retryAfterMs: 0, remaining: quota, resetMs: 0 }
            return found.remainingPoints > 0 ? standingOf(found) : refusalOf(found)
          }),
      })
    },
  }
}

/** Keys contain personal data (addresses, accounts), and the table needs only distinct values. */
export const keyOf = (key: string) => hash('sha256', key, 'base64url')

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

/** What a key has taken in its window, these points included, and the milliseconds until the window ends. */
export async function addPoints(
  tx: Tx,
  o: { name: string; key: string; points: number; seconds: number },
): Promise<{ taken: number; msLeft: number }> {
  const isOver = sql`${rateLimits.expire} <= excluded.expire - ${o.seconds * 1000}::bigint`
  const [row] = await tx
    .insert(rateLimits)
    .values({
      key: `${o.name}:${keyOf(o.key)}`,
      points: o.points,
      expire: sql`(extract(epoch from clock_timestamp()) * 1000)::bigint + ${o.seconds * 1000}::bigint`,
    })
    .onConflictDoUpdate({
      target: rateLimits.key,
      set: {
        points: sql`case when ${isOver} then excluded.points else ${rateLimits.points} + excluded.points end`,
        expire: sql`case when ${isOver} then excluded.expire else ${rateLimits.expire} end`,
      },
    })
    .returning({
      taken: rateLimits.points,
      msLeft: sql<number>`(${rateLimits.expire} - extract(epoch from clock_timestamp()) * 1000)::float8`,
    })
  if (!row) throw new Error('points were not counted')
  // The end of a window is rounded to milliseconds, and may lie behind its length.
  return { ...row, msLeft: Math.min(row.msLeft, o.seconds * 1000) }
}

/** Stops waiting after `ms`; the query continues, and counts if it succeeds. */
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
