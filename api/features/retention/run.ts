import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { newUuid } from '../../../lib/contract/ids.ts'
import type { RetentionResult, RetentionRun } from '../../../lib/contract/retention.ts'
import { safeMessage } from '../../../lib/runtime/log-error.ts'
import { type ObjectStore, StoreError } from '../../../lib/runtime/object-store/object-store.ts'
import { isBehindStore } from '../../audit/restores.ts'
import type { Tx } from '../../db/db.ts'
import { judgeAmount, judgeClocks, type Refusal } from '../../retention/guard-plan.ts'
import type { Due, RetentionTarget } from '../../retention/target.ts'
import type { RunDeps } from './deps.ts'
import { needsColdTier, reasonOf } from './plan.ts'
import { admitRun, endRun, lastAdmitted, refuseRun, registerRun, resultOf } from './queries.ts'
import { report } from './report.ts'
import { openWatch, STALL_MS, type Watch } from './watch.ts'
import { workOff } from './work.ts'

/** How long a process that hangs waits for the figures of its run. */
const LAST_LOOK_MS = 10_000
const NO_FIGURES = { moved: 0, purged: 0, bytes: 0, failures: 0, due: 0, held: 0, errors: [] }

/**
 * One process of a run. Any number of them may run at once, be killed and be started again: what is left to do is what is due
 * and free in the database. Returns the result of the whole run. `Stopped`: the process was told to end, or it hangs, and the
 * run is not over; after that the caller ends the process, which may still have work that never ends.
 */
export async function carryOut(deps: RunDeps, target: RetentionTarget, run: RetentionRun): Promise<RetentionResult> {
  const { stallMs = STALL_MS } = deps
  const watch = openWatch(stallMs)
  const stalled = once(watch.stalled, 'abort').then(() => afterStall(deps, run, stallMs))
  // What can end, does.
  const signal = AbortSignal.any([deps.signal, watch.stalled])
  try {
    return await Promise.race([carryOutWatched({ ...deps, signal }, target, run, watch), stalled])
  } finally {
    watch.close()
  }
}

function afterStall(deps: RunDeps, run: RetentionRun, stallMs: number): Promise<RetentionResult> {
  const minutes = Math.round(stallMs / 60_000)
  return stopped(deps, run, `A process ended because nothing had come to an end for ${minutes} minutes`)
}

/** The process ends without an end of the run, so that the Job makes another one. */
async function stopped({ db, log }: RunDeps, run: RetentionRun, reason: string): Promise<RetentionResult> {
  log.error({ run: run.run }, reason)
  const looked = db.read({}, (tx) => resultOf(tx, run.run)).catch(() => undefined)
  const row = await Promise.race([looked, sleep(LAST_LOOK_MS, undefined, { ref: false })])
  return present(row ?? { ...NO_FIGURES, reason: null, report: null, ended: null }, { ended: 'Stopped', reason })
}

async function carryOutWatched(
  deps: RunDeps,
  target: RetentionTarget,
  run: RetentionRun,
  watch: Watch,
): Promise<RetentionResult> {
  const { db, log } = deps
  const doubt = await doubtAbout(deps)
  if (doubt !== undefined) return stopped(deps, run, doubt)
  const begun = await begin(deps, target, run)
  if ('refusal' in begun) {
    log.warn({ run: run.run, ended: begun.refusal.ended }, begun.refusal.reason)
    return present(await db.read({}, (tx) => resultOf(tx, run.run)), begun.refusal)
  }
  const { due } = begun
  const work = { deps, target, run, due, process: newUuid(), watch }
  const { ended, ...more } = await (run.dryRun ? report(work) : workOff(work))
  await db.inTransaction({}, (tx) => endRun(tx, run.run, { ended, ...more }))
  return present(await db.read({}, (tx) => resultOf(tx, run.run)))
}

/**
 * Why the database may be a backup that was just restored; undefined if it is not. Such a database lacks the legal holds that
 * were placed after the backup, and what a run purges from the object store no restore brings back. The worker notices a restore
 * when it starts, which is after an administrator has placed these holds again.
 */
async function doubtAbout({ db, store }: RunDeps): Promise<string | undefined> {
  try {
    if (!(await isBehindStore({ db, store }))) return undefined
    return 'The database was restored to an earlier time, and no worker was started since; the process did nothing'
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    return `The database cannot be compared with the object store: ${safeMessage(error)}`.slice(0, 512)
  }
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
  const { count, ...amount } = await db.read({}, (tx) => amountOf(tx, target, run, due))
  const refusal = run.dryRun
    ? undefined
    : judgeAmount({ ...run, ...seen, what: 'run', due: count, few: target.few, ...amount })
  if (refusal) {
    await db.inTransaction({}, (tx) => refuseRun(tx, run.run, { ...refusal, due: count, held: amount.held }))
    return { refusal }
  }
  return {
    due: dueAt(
      await db.inTransaction({}, (tx) => admitRun(tx, run, { clockAt: due.at, due: count, held: amount.held })),
    ),
  }
}

async function amountOf(tx: Tx, target: RetentionTarget, run: RetentionRun, due: Due) {
  const { due: count, held } = await target.countDue(tx, due)
  if (count <= target.few) return { count, held, total: count, admitted: 0 }
  const before = target.countAdmitted && (await lastAdmitted(tx, run))
  const admitted = before && target.countAdmitted ? await target.countAdmitted(tx, due, before) : 0
  return { count, held, total: await target.total(tx), admitted }
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

function present(
  row: Awaited<ReturnType<typeof resultOf>>,
  refusal?: { ended: RetentionResult['ended']; reason: string },
): RetentionResult {
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
