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

/**
 * The key under which an address is counted: IPv4 the address, IPv6 its /64, as a customer has at least one whole /64.
 * Accepts the forms that proxies write into X-Forwarded-For: brackets, ports, zones, IPv4 mapped into IPv6. Other text
 * is its own key.
 */
export function countedAddress(ip: string): string {
  const bare = /^\[(.*)\](?::\d+)?$/.exec(ip)?.[1] ?? /^([\d.]+):\d+$/.exec(ip)?.[1] ?? ip
  const groups = groupsOf(bare.toLowerCase().replace(/%.*$/, ''))
  if (!groups) return bare.slice(0, MAX_ADDRESS)
  const [high = 0, low = 0] = groups.slice(6)
  const isMapped = groups[5] === 0xffff && groups.slice(0, 5).every((group) => group === 0)
  if (isMapped) return [high >> 8, high & 255, low >> 8, low & 255].join('.')
  return `${groups
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(':')}::/64`
}

const MAX_ADDRESS = 64
const GROUPS = 8

/** The eight numbers of an IPv6 address (RFC 4291 §2.2); undefined for anything else. */
function groupsOf(text: string): number[] | undefined {
  if (text.length > MAX_ADDRESS || !text.includes(':')) return undefined
  const halves = text.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, mappedGroups).split('::')
  if (halves.length > 2) return undefined
  const [head = [], tail = []] = halves.map((half) => (half === '' ? [] : half.split(':')))
  const missing = GROUPS - head.length - tail.length
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined
  const all = [...head, ...Array<string>(missing).fill('0'), ...tail]
  return all.every((group) => /^[0-9a-f]{1,4}$/.test(group))
    ? all.map((group) => Number.parseInt(group, 16))
    : undefined
}

function mappedGroups(_whole: string, ...bytes: string[]): string {
  const [a = 0, b = 0, c = 0, d = 0] = bytes.slice(0, 4).map(Number)
  return [a, b, c, d].every((byte) => byte < 256)
    ? `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`
    : 'not an address'
}
