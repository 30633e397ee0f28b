import type { Log } from '../../lib/runtime/log.ts'
import type { Database, Tx } from '../db/db.ts'
import {
  isConfirmed,
  judgeAmount,
  judgeClocks,
  SWEEP_GOES_ON_MS,
  SWEEP_MAX_DUE_PERCENT,
} from '../retention/guard-plan.ts'
import { hasPolicy, lockPolicies } from '../retention/policies-queries.ts'
import { admitSweep, lookAtSweep, refuseSweep, type SweepSeen } from '../retention/sweeps-queries.ts'
import type { Due, Swept } from '../retention/target.ts'

/** A sweep that may begin. */
export interface Sweep {
  /** What is due, by the time at which it began, however long it takes and whatever the clock does meanwhile. */
  due: Due
  /** First in the transaction of each claim: whether there is still no policy, and none is written down before its end. */
  mayClaim(tx: Tx): Promise<boolean>
  /** The same for what has been claimed, before its objects go. */
  goesOn(): Promise<boolean>
}

interface Deps {
  db: Database
  log: Log
}

/**
 * Does the worker's part for a target without a policy: purges what is older than `after`. Leaves it to the runs of a policy
 * while there is one, also while that is suspended or only counts. The guards of runs hold back what looks like a clock that has
 * jumped. Undefined: nothing was done.
 */
export async function sweepTarget<T>(
  { db, log }: Deps,
  target: Swept,
  after: string,
  work: (sweep: Sweep) => Promise<T>,
): Promise<T | undefined> {
  const { name } = target
  const seen = await db.read({}, (tx) => lookAtSweep(tx, name))
  if (seen.isGoverned) return undefined
  const due: Due = { at: seen.appNow, rules: [{ after, action: 'purge' }] }
  const { refusal, count } = await judge(db, target, due, seen)
  if (refusal) {
    await db.inTransaction({}, (tx) => refuseSweep(tx, name, { refusal, askedAt: due.at, due: count }))
    const command = `cli.js sweep confirm ${name} --due ${count}`
    const todo = refusal.ended === 'ClockSkew' ? 'correct the clock' : `see docs/retention.md, then: ${command}`
    log.error({ target: name, due: count, ended: refusal.ended, todo }, `the sweep is held back: ${refusal.reason}`)
    return undefined
  }
  await db.inTransaction({}, (tx) => admitSweep(tx, name, due.at))
  return work({
    due,
    async mayClaim(tx) {
      await lockPolicies(tx)
      return !(await hasPolicy(tx, name))
    },
    goesOn: () => db.read({}, async (tx) => !(await hasPolicy(tx, name))),
  })
}

/** The guards, for a sweep that does not go on where one ended a moment ago. Counting may take a while: in no transaction that writes. */
async function judge(db: Database, target: Swept, due: Due, seen: SweepSeen) {
  const skewed = judgeClocks(seen.nowMs, Date.now())
  if (skewed) return { refusal: skewed, count: 0 }
  const { msSinceSweep } = seen
  if (msSinceSweep !== null && msSinceSweep <= SWEEP_GOES_ON_MS) return { refusal: undefined, count: 0 }
  const amount = await db.read({}, async (tx) => {
    const { due: count, held } = await target.countDue(tx, due)
    return { count, held, total: count > target.few ? await target.total(tx) : count }
  })
  const { count } = amount
  const refusal = judgeAmount({
    ...amount,
    what: 'sweep',
    daysSinceLast: seen.daysSinceLast,
    due: count,
    few: target.few,
    maxDuePercent: SWEEP_MAX_DUE_PERCENT,
    confirmed: isConfirmed(seen.confirmed, count),
  })
  return { refusal, count }
}
