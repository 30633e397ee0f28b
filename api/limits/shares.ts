import { Problem } from '../../lib/contract/problem.ts'

/** How the callers of one process share a resource of which it has `total`. */
export interface ShareRules {
  total: number
  /** How many one caller may hold at a time. */
  perCaller: number
  /** The last ones, which only a caller that holds none may take. */
  reserve: number
  /** How many requests of one caller may wait for their turn. */
  waiting: number
  /** The same of an address without an account, if it may be more. */
  waitingPerAddress?: number
  /** With Infinity a request waits as long as it takes. */
  waitMs: number
}

/** Gives back what was taken; further calls have no effect. */
export type Leave = () => void

export interface Shares {
  /**
   * Takes one, or waits for a turn. Throws Problem RATE_LIMITED if the caller already has its share, SERVICE_UNAVAILABLE
   * if the others have the rest. With `isPatient` a request that has begun is carried through: it waits before all other
   * requests of its caller, and as long as it takes.
   */
  enter(caller: string, o?: { isPatient?: boolean; isAddress?: boolean }): Leave | Promise<Leave>
  /** How many are taken, for metrics. */
  taken(): number
}

/** Seconds after which a refused caller may try again. */
export const RETRY_SECONDS = { caller: 1, others: 5 }

/** Whether a caller that holds `held` may take another one now. */
export const mayTake = (rules: ShareRules, { held, taken }: { held: number; taken: number }): boolean =>
  held < rules.perCaller && taken < (held === 0 ? rules.total : rules.total - rules.reserve)

interface Waiter {
  isPatient: boolean
  go(leave: Leave): void
}
interface Account {
  held: number
  waiting: Waiter[]
}

/** Keeps only callers that hold something or wait for it. */
export function openShares(rules: ShareRules): Shares {
  // A Map keeps the order of insertion, and a caller whose turn came goes to its end.
  const accounts = new Map<string, Account>()
  let taken = 0

  function take(caller: string, account: Account): Leave {
    account.held += 1
    taken += 1
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      account.held -= 1
      taken -= 1
      forget(caller, account)
      handOver()
    }
  }

  function forget(caller: string, account: Account): void {
    if (account.held === 0 && account.waiting.length === 0) accounts.delete(caller)
  }

  /** The next turn is of the caller that holds least, and of those of the one that had none for longest. */
  function handOver(): void {
    for (let next = nextCaller(); next; next = nextCaller()) {
      const [caller, account] = next
      accounts.delete(caller)
      accounts.set(caller, account)
      account.waiting.shift()?.go(take(caller, account))
    }
  }

  function nextCaller(): [string, Account] | undefined {
    let best: [string, Account] | undefined
    for (const entry of accounts) {
      const [, { held, waiting }] = entry
      if (waiting.length === 0 || !mayTake(rules, { held, taken })) continue
      if (!best || held < best[1].held) best = entry
    }
    return best
  }

  function wait(caller: string, account: Account, isPatient: boolean): Promise<Leave> {
    return new Promise((resolve, reject) => {
      const late = () => {
        account.waiting.splice(account.waiting.indexOf(waiter), 1)
        reject(refusal(account))
        forget(caller, account)
      }
      // A timer of Infinity would end at once.
      const isEndless = isPatient || rules.waitMs === Number.POSITIVE_INFINITY
      const timer = isEndless ? undefined : setTimeout(late, rules.waitMs)
      const waiter: Waiter = {
        isPatient,
        go(leave) {
          clearTimeout(timer)
          resolve(leave)
        },
      }
      const others = account.waiting.findIndex((other) => !other.isPatient)
      if (isPatient && others >= 0) account.waiting.splice(others, 0, waiter)
      else account.waiting.push(waiter)
    })
  }

  function refusal({ held }: Account): Problem {
    if (held >= rules.perCaller) {
      const retryAfter = RETRY_SECONDS.caller
      return new Problem('RATE_LIMITED', 'Too many requests at once. Please slow down.', { retryAfter })
    }
    const retryAfter = RETRY_SECONDS.others
    return new Problem('SERVICE_UNAVAILABLE', 'Too busy at the moment. Please try again.', { retryAfter })
  }

  return {
    enter(caller, { isPatient = false, isAddress = false } = {}) {
      const account = accounts.get(caller) ?? { held: 0, waiting: [] }
      if (account.waiting.length === 0 && mayTake(rules, { held: account.held, taken })) {
        accounts.set(caller, account)
        return take(caller, account)
      }
      const most = isAddress ? (rules.waitingPerAddress ?? rules.waiting) : rules.waiting
      if (!isPatient && account.waiting.length >= most) throw refusal(account)
      accounts.set(caller, account)
      return wait(caller, account, isPatient)
    },
    taken: () => taken,
  }
}
