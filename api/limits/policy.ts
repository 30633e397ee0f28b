import { countedAddress } from '../../lib/contract/counted-address.ts'
import type { Limit, LimitRules } from './classes.ts'

/** The caller of a request, as far as known. */
export interface Caller {
  ip: string
  /** Empty without a token. */
  userId: string
  /** The account that the body names, where the class counts by account. */
  account?: string
}

/** Who counts as one caller: a user, or the address of a request without an account. */
export const callerKey = ({ userId, ip }: Pick<Caller, 'ip' | 'userId'>) => userId || countedAddress(ip)

/** A limit with its numbers multiplied by the configured factor. */
export type ScaledLimit = Required<Limit>

/** State of a caller's limit after a request. */
export interface Standing {
  /** 0 if the request is allowed, else the milliseconds until a request will be. */
  retryAfterMs: number
  /** Requests that are allowed now. */
  remaining: number
  /** Milliseconds until the limit is fully available again. */
  resetMs: number
}

const scale = (value: number, factor: number) => Math.max(1, Math.round(value * factor))

export function scaled(limit: Limit, factor: number): ScaledLimit {
  return { ...limit, quota: scale(limit.quota, factor), burst: scale(limit.burst ?? limit.quota, factor) }
}

export const scaledAtOnce = ({ atOnce }: LimitRules, factor: number) =>
  atOnce === undefined ? Number.POSITIVE_INFINITY : scale(atOnce, factor)

/** Times that differ by less are equal (milliseconds): floating-point sums are inexact. */
const EPSILON = 1e-6

/**
 * A bucket of `burst` tokens that refills at `quota` per `seconds`; each request takes one (the generic cell rate
 * algorithm, ITU-T I.371). Its only state is `fullAt`, the time when it will be full again; a full bucket needs no
 * state. Times are milliseconds of one clock.
 */
export function takeToken(
  limit: ScaledLimit,
  fullAt: number | undefined,
  now: number,
): { standing: Standing; fullAt: number } {
  const interval = (limit.seconds * 1000) / limit.quota
  const capacity = interval * limit.burst
  const before = Math.max(fullAt ?? now, now)
  const after = before + interval
  const missing = after - now - capacity
  if (missing > EPSILON) {
    return { standing: { retryAfterMs: missing, remaining: 0, resetMs: before - now }, fullAt: before }
  }
  const remaining = Math.floor((capacity - (after - now)) / interval + EPSILON)
  return { standing: { retryAfterMs: 0, remaining, resetMs: after - now }, fullAt: after }
}

/** Of two counts of the same requests, the one that leaves fewer. */
export const stricter = (a: Standing, b: Standing): Standing =>
  a.retryAfterMs > b.retryAfterMs || (a.retryAfterMs === b.retryAfterMs && a.remaining < b.remaining) ? a : b
