import { setTimeout as sleep } from 'node:timers/promises'
import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import type { RetentionResult, RetentionRun } from '../../../lib/contract/retention.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import { isLeased, postpone, releaseLeases, renewLeases } from '../../retention/leases-queries.ts'
import type { HandleDeps } from '../../retention/target.ts'
import type { Work } from './deps.ts'
import { failureOf, isSlowDown, isUnavailable } from './failure.ts'
import { openPace } from './pace.ts'
import { MAX_AT_ONCE, MAX_REFUSALS, MAX_REFUSED_ITEMS, nextAtOnce, refusalPauseMs, shareOf } from './plan.ts'
import { addCounts, addError } from './queries.ts'

const LEASE_SECONDS = 600
/** Between looks at what others have leased. */
const WAIT_MS = 3000
/** Of one item, while the store refuses it. */
const MAX_ATTEMPTS = 3

/** Claims, handles and counts until nothing is left, or it has to stop. */
export async function workOff(work: Work): Promise<{ ended: RetentionResult['ended'] }> {
  const { deps, target, run, due } = work
  const { db, leaseSeconds = LEASE_SECONDS } = deps
  const batches = openBatches(work)
  // Only the last process that ends may say that nothing is left: at its second look, for at the first one a peer may have been
  // about to commit a claim.
  for (let emptyLooks = 0; emptyLooks < 2; ) {
    const stopped = stopOf(work)
    if (stopped) return { ended: stopped }
    const token = newUuid()
    const { items, held } = await db.inTransaction({}, (tx) =>
      target.claim(tx, due, { limit: run.batchSize, seconds: leaseSeconds, token }),
    )
    failpoint('retention.claimed')
    if (items.length > 0 && (await batches.handle(items, token))) return { ended: 'StoreUnavailable' }
    emptyLooks = items.length + held > 0 ? 0 : await restIdle(work, emptyLooks)
  }
  return { ended: 'Finished' }
}

const isClosed = ({ until }: RetentionRun) => until !== undefined && Date.now() >= Date.parse(until)

function stopOf({ deps, run }: Work): 'Stopped' | 'WindowClosed' | undefined {
  if (deps.signal.aborted) return 'Stopped'
  return isClosed(run) ? 'WindowClosed' : undefined
}

/** What a peer has leased is left over if it dies: waits for it. Returns how many looks in a row have found nothing at all. */
async function restIdle({ deps, target, due }: Work, emptyLooks: number): Promise<number> {
  const { db, signal, waitMs = WAIT_MS } = deps
  const isBusy = await db.read({}, (tx) => isLeased(tx, target.leases, target.isDue?.(due)))
  await sleep(waitMs * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => {})
  return isBusy ? 0 : emptyLooks + 1
}

function openBatches({ deps, target, run, due, process }: Work) {
  const { db, store, log, signal, leaseSeconds = LEASE_SECONDS, pauseMs = refusalPauseMs } = deps
  /** Refusals of the store in a row, of whatever item. */
  let refusals = 0
  /** Items in a row that the store refused while it answered otherwise. */
  let refusedItems = 0
  let atOnce = MAX_AT_ONCE
  let hasSlowedDown = false
  const of = { run: run.run, process }
  const handling: HandleDeps = {
    ...{ db, store, log, signal },
    pace: openPace(shareOf(run), signal),
    count: (tx, done) => addCounts(tx, of, done),
  }

  /** Whether the item is over; false: the store is unavailable, or too many ask it at once, or the process is to end. */
  async function handleOne(item: object, token: Uuid, isNeeded: () => boolean): Promise<boolean> {
    for (let attempt = 1; refusals < MAX_REFUSALS; attempt++) {
      const error = await attemptOf(item, token)
      if (error === undefined) return true
      if (signal.aborted) return false
      if (await isOwnFault(error, attempt)) {
        await fail(item, token, error)
        return true
      }
      if (!(await isRepeated(error, isNeeded))) return false
    }
    return false
  }

  /** What it failed with; undefined: the item is over. */
  async function attemptOf(item: object, token: Uuid): Promise<unknown> {
    try {
      const outcome = await target.handle(handling, item, { token, due })
      // Not due any more, or another's. A lease that is left in place would keep the run waiting.
      if (outcome === 'lost') await giveBack([item], token)
      refusals = 0
      refusedItems = 0
      return undefined
    } catch (error) {
      return error ?? new Error('failed')
    }
  }

  /** After a refusal: waits, unless the store asks for fewer at once and this is one too many. */
  async function isRepeated(error: unknown, isNeeded: () => boolean): Promise<boolean> {
    refusals += 1
    if (isSlowDown(error)) hasSlowedDown = true
    if (!isNeeded()) return false
    await sleep(pauseMs(refusals) * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => {})
    return true
  }

  /** The store refuses this item again and again, and answers otherwise. */
  async function isOwnFault(error: unknown, attempt: number): Promise<boolean> {
    if (!isUnavailable(error)) return true
    return !isSlowDown(error) && attempt >= MAX_ATTEMPTS && (await store.check().then(...ANSWERS))
  }

  async function fail(item: object, token: Uuid, error: unknown): Promise<void> {
    const { rows, id } = target.about(item)
    const { until, ...said } = failureOf(error)
    // The store has answered: what it refused is this item.
    refusals = 0
    if (isUnavailable(error)) refusedItems += 1
    log.warn({ err: error, id, run: run.run }, 'an item could not be handled; a later run tries it again')
    await db.inTransaction({}, async (tx) => {
      await postpone(tx, target.leases, rows, { until, token })
      await addError(tx, run.run, { id, ...said })
      await addCounts(tx, of, { failures: 1 })
    })
  }

  const rowsOf = (some: Iterable<object>) => [...some].flatMap((item) => target.about(item).rows)
  function renew(left: ReadonlySet<object>, token: Uuid): void {
    db.inTransaction({}, (tx) => renewLeases(tx, target.leases, rowsOf(left), { seconds: leaseSeconds, token })).catch(
      (error: unknown) => log.warn({ err: error, run: run.run }, 'could not renew leases; they may end'),
    )
  }
  const giveBack = (some: Iterable<object>, token: Uuid) =>
    db.inTransaction({}, (tx) => releaseLeases(tx, target.leases, { ids: rowsOf(some), token }))
  const isRefused = () => refusals >= MAX_REFUSALS || refusedItems >= MAX_REFUSED_ITEMS
  const mayGoOn = () => !signal.aborted && !isClosed(run) && !isRefused()

  return {
    /** Handles leased items, several at once. Returns whether the store is unavailable. What was not begun is given back. */
    async handle(items: readonly object[], token: Uuid): Promise<boolean> {
      const left = new Set(items)
      const waiting = [...items]
      hasSlowedDown = false
      const renewal = setInterval(() => renew(left, token), (leaseSeconds * 1000) / 3)
      async function worker(index: number): Promise<void> {
        const isNeeded = () => index < (hasSlowedDown ? nextAtOnce(atOnce, true) : atOnce)
        while (isNeeded() && mayGoOn()) {
          const item = waiting.shift()
          if (!item) return
          if (await handleOne(item, token, isNeeded)) left.delete(item)
          else waiting.push(item)
        }
      }
      try {
        await Promise.all(Array.from({ length: atOnce }, (_, index) => worker(index)))
      } finally {
        clearInterval(renewal)
        atOnce = nextAtOnce(atOnce, hasSlowedDown)
        if (left.size > 0) await giveBack(left, token)
      }
      return isRefused()
    },
  }
}

/** Whether a promise is fulfilled. */
const ANSWERS = [() => true, () => false] as const
