import type { ServerResponse } from 'node:http'
import { countedAddress } from '../../lib/contract/counted-address.ts'
import { Problem } from '../../lib/contract/problem.ts'
import type { Tx } from '../db/db.ts'
import { type Buckets, openBuckets } from './buckets.ts'
import { LIMIT_CLASSES, type Limit, type LimitClass, type LimitRules, type Refusal, UNAUTHORIZED } from './classes.ts'
import { policyHeader, secondsUntil, standingHeader } from './headers.ts'
import { type Caller, callerKey, type ScaledLimit, type Standing, scaled, scaledAtOnce, stricter } from './policy.ts'
import { addPoints, type SharedCounters } from './queries.ts'
import { openSlotsByKey } from './slots.ts'

/** Each call throws Problem RATE_LIMITED for a refusal and sets `RateLimit-Policy` and `RateLimit` on the response. */
export interface Limits {
  /** Counts a request before its body is read. */
  take(name: LimitClass, caller: Caller, res: ServerResponse): Promise<void>
  /** Counts it again once the account in the body is known. */
  takeForAccount(name: LimitClass, caller: Caller, res: ServerResponse): Promise<void>
  /**
   * Counts what a request has done, in the transaction that does it: if the count is refused, so is the work. The counters
   * stay locked until the transaction ends: call it last.
   */
  takeDone(name: LimitClass, caller: Caller, tx: Tx, res: ServerResponse): Promise<void>
  /** Counts a request that was refused, in a class that limits those. Refuses nothing. */
  noteRefused(name: LimitClass, caller: Caller, by: Refusal): Promise<void>
  /** Counts a request whose token was missing or refused. */
  takeUnauthorized(caller: Caller, res: ServerResponse): Promise<void>
}

export interface LimitsOptions {
  /** Multiplies every number; 0 switches all limits off. */
  factor: number
  /** Counts the shared classes. */
  shared: SharedCounters
  /** Milliseconds of a monotonic clock. */
  now: () => number
  onRefused(name: string): void
}

/** Whether a success of this class counts, so that the operation must say in which transaction it was done. */
export const countsDone = (name: LimitClass): boolean => LIMIT_CLASSES[name].done !== undefined

export const limitOf = (route: { limit?: LimitClass }): LimitClass => route.limit ?? 'general'

/** Undefined when limits are switched off. */
export function openLimits(o: LimitsOptions): Limits | undefined {
  if (o.factor === 0) return undefined
  const classes = new Map(Object.entries(LIMIT_CLASSES).map(([name, rules]) => [name, openClass(name, rules, o)]))
  const unauthorized = openClass('unauthorized', UNAUTHORIZED, o)
  const named = (name: LimitClass): OpenClass => {
    const found = classes.get(name)
    if (!found) throw new Error(`there is no limit class ${name}`)
    return found
  }
  return {
    async take(name, caller, res) {
      const it = named(name)
      it.enter(caller, res)
      await it.count(it.early, caller, res)
      await it.lookRefused(caller, res)
    },
    takeForAccount: (name, caller, res) => named(name).count(named(name).late, caller, res),
    takeDone: (name, caller, tx, res) => named(name).countDone(caller, tx, res),
    noteRefused: (name, caller, by) => named(name).noteRefused(caller, by),
    takeUnauthorized: (caller, res) => unauthorized.count(unauthorized.early, caller, res),
  }
}

interface Counter {
  name: string
  limit: ScaledLimit
  take(key: string, caller: Caller): Standing | Promise<Standing>
}

interface RefusedCounter extends Counter {
  /** Where the key stands, counting nothing. */
  look(key: string): Standing | Promise<Standing>
}

type OpenClass = ReturnType<typeof openClass>

function openClass(className: string, rules: LimitRules, o: LimitsOptions) {
  const scaledAll = (all: Readonly<Record<string, Limit>> = {}) =>
    Object.fromEntries(Object.entries(all).map(([name, limit]) => [name, scaled(limit, o.factor)]))
  const [limits, done, refused] = [scaledAll(rules.limits), scaledAll(rules.done), scaledAll(rules.refused)]
  const refusals = Object.entries(refused).map(([name, limit]) => openRefusedCounter(name, limit, rules, o))
  const counters = Object.entries(limits).map(([name, limit]) => openCounter(name, limit, rules, o))
  const policy = policyHeader({ ...limits, ...done, ...refused })
  const slots = openSlotsByKey(scaledAtOnce(rules, o.factor))

  function refuse(ms: number): never {
    o.onRefused(className)
    throw new Problem('RATE_LIMITED', 'Too many requests. Please slow down.', { retryAfter: secondsUntil(ms) })
  }

  /** Shows where the caller stands, in place of what the response says under this name. A transaction may run again. */
  function settle(name: string, standing: Standing, res: ServerResponse): void {
    const earlier = String(res.getHeader('RateLimit') ?? '').split(', ')
    const others = earlier.filter((one) => one !== '' && !one.startsWith(`"${name}";`))
    res.setHeader('RateLimit', [...others, standingHeader(name, standing)].join(', '))
    res.setHeader('RateLimit-Policy', policy)
    if (standing.retryAfterMs > 0) refuse(standing.retryAfterMs)
  }

  return {
    /** Limits that count before the body is read, and those that count after it. */
    early: counters.filter(({ limit }) => !isLate(limit)),
    late: counters.filter(({ limit }) => isLate(limit)),

    /** Takes a slot of a class with `atOnce` until the response ends or its connection closes. */
    enter(caller: Caller, res: ServerResponse): void {
      if (rules.atOnce === undefined || res.closed) return
      const leave = slots.enter(callerKey(caller))
      if (!leave) refuse(0)
      res.once('close', leave)
    },

    async count(some: readonly Counter[], caller: Caller, res: ServerResponse): Promise<void> {
      for (const { name, limit, take } of some) {
        const counted = take(keyOf(limit.per, caller), caller)
        const standing = counted instanceof Promise ? await counted : counted
        settle(name, standing, res)
      }
    },

    async lookRefused(caller: Caller, res: ServerResponse): Promise<void> {
      for (const { name, limit, look } of refusals) settle(name, await look(keyOf(limit.per, caller)), res)
    },

    async noteRefused(caller: Caller, by: Refusal): Promise<void> {
      for (const { name, limit, take } of refusals) {
        if (rules.refused?.[name]?.by === by) await take(keyOf(limit.per, caller), caller)
      }
    },

    async countDone(caller: Caller, tx: Tx, res: ServerResponse): Promise<void> {
      for (const [name, { quota, seconds }] of Object.entries(done)) {
        const { taken, msLeft } = await addPoints(tx, { name, key: callerKey(caller), points: 1, seconds })
        const retryAfterMs = taken > quota ? Math.max(1, msLeft) : 0
        settle(name, { retryAfterMs, remaining: Math.max(0, quota - taken), resetMs: msLeft }, res)
      }
    },
  }
}

/**
 * This process counts first: its refusals cost no round trip, so the flood of one client does not reach Postgres. If
 * Postgres does not respond, the count of this process decides.
 */
function openCounter(name: string, limit: ScaledLimit, rules: LimitRules, o: LimitsOptions): Counter {
  const buckets = openBuckets(limit, o.now)
  if (limit.per === 'accounts') return { name, limit, take: countedOnce(limit, buckets, o.now) }
  if (!rules.shared) return { name, limit, take: buckets.take }
  const askPostgres = o.shared.counter(name, limit)
  return { name, limit, take: bothOf(buckets.take, askPostgres, openWindowEnds(o.now)) }
}

function openRefusedCounter(name: string, limit: ScaledLimit, rules: LimitRules, o: LimitsOptions): RefusedCounter {
  const buckets = openBuckets(limit, o.now)
  if (!rules.shared) return { name, limit, take: buckets.take, look: buckets.peek }
  const [askPostgres, windows] = [o.shared.counter(name, limit), openWindowEnds(o.now)]
  return {
    name,
    limit,
    take: bothOf(buckets.take, askPostgres, windows),
    look: bothOf(buckets.peek, askPostgres.look, windows),
  }
}

/** Of this process and of Postgres, what is stricter. */
const bothOf =
  (
    ofProcess: (key: string) => Standing,
    ofPostgres: (key: string) => Promise<Standing | undefined>,
    windows: ReturnType<typeof openWindowEnds>,
  ) =>
  async (key: string): Promise<Standing> => {
    const here = ofProcess(key)
    // The bucket refills before the window in Postgres ends: a client told so would only be refused again.
    if (here.retryAfterMs > 0) return notBefore(here, windows.leftMs(key))
    const everywhere = await ofPostgres(key)
    if (everywhere) windows.note(key, everywhere.resetMs)
    return everywhere ? stricter(here, everywhere) : here
  }

/** Takes a token for an account that the address has not named for a while. An account that was refused is not known. */
function countedOnce(limit: ScaledLimit, buckets: Buckets, now: () => number): Counter['take'] {
  const named = new Map<string, number>()
  return (address, caller) => {
    const key = keyOf('account', caller)
    const at = now()
    const isKnown = (named.get(key) ?? Number.NEGATIVE_INFINITY) + limit.seconds * 1000 > at
    if (isKnown) return buckets.look(address)
    const standing = buckets.take(address)
    if (standing.retryAfterMs > 0) return standing
    named.delete(key)
    const oldest = named.size >= MAX_NAMED ? named.keys().next().value : undefined
    if (oldest !== undefined) named.delete(oldest)
    named.set(key, at)
    return standing
  }
}

const MAX_NAMED = 20_000

const isLate = ({ per }: ScaledLimit) => per === 'account' || per === 'accounts'

const notBefore = (standing: Standing, ms: number): Standing => ({
  ...standing,
  retryAfterMs: Math.max(standing.retryAfterMs, ms),
  resetMs: Math.max(standing.resetMs, ms),
})

const MAX_WINDOWS = 20_000

/** When the window of each key ends in Postgres, as it last said; bounded, and a key that was dropped counts as ended. */
function openWindowEnds(now: () => number) {
  const ends = new Map<string, number>()
  return {
    note(key: string, resetMs: number): void {
      ends.delete(key)
      const oldest = ends.size >= MAX_WINDOWS ? ends.keys().next().value : undefined
      if (oldest !== undefined) ends.delete(oldest)
      ends.set(key, now() + resetMs)
    },
    leftMs: (key: string) => Math.max(0, (ends.get(key) ?? 0) - now()),
  }
}

function keyOf(per: ScaledLimit['per'], caller: Caller): string {
  if (per === 'caller') return callerKey(caller)
  const address = countedAddress(caller.ip)
  return per === 'address' || per === 'accounts' ? address : `${address} ${(caller.account ?? '').toLowerCase()}`
}
