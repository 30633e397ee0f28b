import { AsyncLocalStorage } from 'node:async_hooks'
import { Problem } from '../../lib/contract/problem.ts'
import { checkWrites, type Database } from '../db/db.ts'
import { type Caller, callerKey } from './policy.ts'
import { openShares, type ShareRules } from './shares.ts'

/** The request that the running code belongs to. */
interface Serving {
  caller: string
  /** Of a request without an account. */
  isAddress: boolean
  /** Whether one of its transactions has had its turn. */
  hasBegun: boolean
  /** Whether the code runs inside a transaction of this request. */
  inside?: { isOpen: boolean }
}
const serving = new AsyncLocalStorage<Serving>()

/** Runs the work of a request: transactions of a fair database count on `caller`. */
export const asCaller = <T>(caller: Caller, work: () => T): T =>
  serving.run({ caller: callerKey(caller), isAddress: !caller.userId, hasBegun: false }, work)

export interface FairDatabase extends Database {
  /** Transactions of requests that run now, for metrics. */
  taken(): number
}

/**
 * The same database, shared between callers: each has at most its share of the transactions, and more wait for their
 * turn. Outside of requests nothing changes.
 */
export function fairDatabase(db: Database, rules: ShareRules, onRefused: () => void): FairDatabase {
  const shares = openShares(rules)

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const current = serving.getStore()
    if (!current) return work()
    // Six of them would wait for each other for ever.
    if (current.inside?.isOpen) throw new Error('a transaction must not wait for another one')
    const leave = await enter(current)
    const inside = { isOpen: true }
    try {
      return await serving.run({ ...current, hasBegun: true, inside }, work)
    } finally {
      inside.isOpen = false
      leave()
    }
  }

  /** A request that has begun to write is not refused in the middle: its next transactions wait as long as it takes. */
  async function enter(current: Serving) {
    try {
      const leave = await shares.enter(current.caller, { isPatient: current.hasBegun, isAddress: current.isAddress })
      current.hasBegun = true
      return leave
    } catch (error) {
      if (error instanceof Problem) onRefused()
      throw error
    }
  }

  return {
    ...db,
    inTransaction: (scope, work) => inTurn(() => db.inTransaction(scope, work)),
    read: (scope, work) => inTurn(() => db.read(scope, work)),
    readAtOnce: (scope, work) => inTurn(() => db.readAtOnce(scope, work)),
    // Who asks this before work elsewhere, such as a sign-in, has begun: it must be able to record the outcome. So it asks
    // the pool that will do so, not the connection of the readiness check.
    check: () => inTurn(() => checkWrites(db.pool)),
    taken: shares.taken,
  }
}
