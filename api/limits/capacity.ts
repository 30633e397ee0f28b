import type { ShareRules } from './shares.ts'

/**
 * How much of this process one caller can take: a signed-in user, or the address of a request without an account (an
 * IPv6 address counts by its /64). docs/limits.md lists them with the test of each.
 */

/** Requests of one caller that may wait for a turn. As many as the general rate limit lets through at once. */
export const MAX_WAITING = 60
/**
 * The same of an address without an account, which may be that of many people: as many as the limit of deliveries lets
 * through at once.
 */
export const MAX_WAITING_PER_ADDRESS = 600
/** A request that has waited for so long is refused. */
export const MAX_WAIT_MS = 5000

/** A document has at most 256 KiB: 64 MiB when all of them are that large. */
export const MAX_DOCUMENTS = 256
export const MAX_DOCUMENTS_PER_CALLER = 16
export const RESERVED_DOCUMENTS = 64

/**
 * Tests and load runs switch the limits off with factor 0. Then a queue has no end, and a request waits in it as long as it
 * takes, but what one caller holds has a bound.
 */
const waitingWith = (factor: number, most = MAX_WAITING) => (factor === 0 ? Number.POSITIVE_INFINITY : most)
const waitMsWith = (factor: number) => (factor === 0 ? Number.POSITIVE_INFINITY : MAX_WAIT_MS)

export const documentShares = (factor: number): ShareRules => ({
  total: MAX_DOCUMENTS,
  perCaller: MAX_DOCUMENTS_PER_CALLER,
  reserve: RESERVED_DOCUMENTS,
  waiting: waitingWith(factor),
  waitMs: waitMsWith(factor),
})

/** Event streams of one user: one for each device, and a few. A further one replaces the oldest. */
export const MAX_EVENT_STREAMS_PER_USER = 5

/** The share of the streams that only callers without one may take. */
export const RESERVED_STREAMS = 1 / 8

/**
 * A stream does not wait: it would arrive meanwhile. How many one caller may hold is `atOnce` of the class of its
 * operation (classes.ts).
 */
export const streamShares = (total: number): ShareRules => ({
  total,
  perCaller: Number.POSITIVE_INFINITY,
  reserve: Math.floor(total * RESERVED_STREAMS),
  waiting: 0,
  waitMs: 0,
})

/**
 * Connections that no request waits for in line: those of tokens, shared counters and the audit log, which belong to
 * every request.
 */
export const UNSHARED_CONNECTIONS = 1
/** The parts of the others that one caller may use, and that are reserved: 6 and 2 of 9. */
export const CONNECTIONS_PER_CALLER = 2 / 3
export const RESERVED_CONNECTIONS = 1 / 4
/** One caller needs no more, however many there are. */
export const MAX_TRANSACTIONS_PER_CALLER = 6

export function databaseShares(connections: number, factor: number): ShareRules {
  const total = Math.max(1, connections - UNSHARED_CONNECTIONS)
  return {
    total,
    perCaller: Math.min(MAX_TRANSACTIONS_PER_CALLER, Math.max(1, Math.floor(total * CONNECTIONS_PER_CALLER))),
    reserve: Math.floor(total * RESERVED_CONNECTIONS),
    waiting: waitingWith(factor),
    waitingPerAddress: waitingWith(factor, MAX_WAITING_PER_ADDRESS),
    waitMs: waitMsWith(factor),
  }
}
