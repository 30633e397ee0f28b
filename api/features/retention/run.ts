import { newUuid } from '../../../lib/contract/ids.ts'
import type { RetentionResult, RetentionRun } from '../../../lib/contract/retention.ts'
import { safeMessage } from '../../../lib/runtime/log-error.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import type { Due, RetentionTarget } from '../../retention/target.ts'
import type { RunDeps } from './deps.ts'
import { judgeAmount, judgeClocks, needsColdTier, type Refusal, reasonOf } from './plan.ts'
import { admitRun, endRun, refuseRun, registerRun, resultOf } from './queries.ts'
import { report } from './report.ts'
import { workOff } from './work.ts'

/**
 * One process of a run. Any number of them may run at once, be killed and be started again: what is left to do is what is due
 * and free in the database. Returns the result of the whole run.
 */
export async function carryOut(deps: RunDeps, target: RetentionTarget, run: RetentionRun): Promise<RetentionResult> {
  const { db, log } = deps
  const begun = await begin(deps, target, run)
  if ('refusal' in begun) {
    log.warn({ run: run.run, ended: begun.refusal.ended }, begun.refusal.reason)
    return present(await db.read({}, (tx) => resultOf(tx, run.run)), begun.refusal)
  }
  const { due } = begun
  const work = { deps, target, run, due, process: newUuid() }
  const { ended, ...more } = await (run.dryRun ? report(work) : workOff(work))
  await db.inTransaction({}, (tx) => endRun(tx, run.run, { ended, ...more }))
  return present(await db.read({}, (tx) => resultOf(tx, run.run)))
}

/** What is due, by the time at which the run began; or why it does not begin. */
async function begin(
  { db, store }: RunDeps,
  target: RetentionTarget,
  run: RetentionRun,
): Promise<{ due: Due } | { refusal: Refusal }> {
  const seen = await db.inTransaction({}, (tx) => registerRun(tx, run))
  const unfit = judgeClocks(seen.nowMs, Date.now()) ?? (needsColdTier(run) ? await judgeColdTier(store) : undefined)
  if (unfit) {
    await db.inTransaction({}, (tx) => refuseRun(tx, run.run, { ...unfit, due: 0, held: 0 }))
    return { refusal: unfit }
  }
  const dueAt = (at: string): Due => ({ at, rules: run.rules })
  if (seen.clockAt !== null) return { due: dueAt(seen.clockAt) }
  const due = dueAt(seen.appNow)
  // Before the guards are asked, not in the transaction that records their answer: counting may take a while.
  const { count, held, total } = await db.read({}, async (tx) => {
    const { due: count, held } = await target.countDue(tx, due)
    return { count, held, total: count > target.few ? await target.total(tx) : count }
  })
  const refusal = run.dryRun ? undefined : judgeAmount({ ...run, ...seen, due: count, few: target.few, held, total })
  if (refusal) {
    await db.inTransaction({}, (tx) => refuseRun(tx, run.run, { ...refusal, due: count, held }))
    return { refusal }
  }
  return {
    due: dueAt(await db.inTransaction({}, (tx) => admitRun(tx, run.run, { clockAt: due.at, due: count, held }))),
  }
}

/** Refuses a run whose objects would have nowhere to go, before its first item fails. */
async function judgeColdTier(store: Pick<ObjectStore, 'checkColdTier'>): Promise<Refusal | undefined> {
  const error = await store.checkColdTier().then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error === undefined) return undefined
  return { ended: 'StoreUnavailable', reason: `The cold tier cannot be used: ${safeMessage(error)}`.slice(0, 512) }
}

function present(row: Awaited<ReturnType<typeof resultOf>>, refusal?: Refusal): RetentionResult {
  const { held, reason, report: key, ended, ...figures } = row
  const said = reasonOf({ refusal: refusal?.reason ?? reason ?? undefined, held })
  return {
    v: 1,
    ...figures,
    ended: refusal?.ended ?? ended ?? 'Stopped',
    ...(said !== undefined && { reason: said }),
    ...(key !== null && { report: key }),
  }
}
