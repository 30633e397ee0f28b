import { ClusterError, type ObjectKey } from '../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ControllerMetrics } from './metrics.ts'
import { keyOf, type ObjectQueue } from './object-queue.ts'
import { PRIORITY, type Work } from './queue.ts'

export interface Result {
  /** Reconcile again after this time, even without a change. */
  requeueAfterMs?: number
  /** Then behind all objects that have changed, and behind those of the initial list that still wait. */
  requeueLast?: true
}

/**
 * Moves one object towards its spec, from any state. It gets the key of the object, not the change (level-triggered).
 * After an error the key is requeued with exponential backoff. `signal` is aborted when this process may no longer
 * write. `isLast`: nothing that has changed waits, so this is the turn for what is not urgent.
 */
export type Reconcile = (key: ObjectKey, signal: AbortSignal, isLast?: boolean) => Promise<Result | undefined>

/** A failure that a retry cannot help: logged and counted, not retried until the object changes. */
export class TerminalError extends Error {
  override readonly name = 'TerminalError'
}

export interface ControllerOptions {
  name: string
  reconcile: Reconcile
  concurrency: number
  /** The caches that reconcile reads. Workers start when all of them are complete. */
  caches: readonly { synced(): Promise<void> }[]
  cacheSyncTimeoutMs?: number
  /** The signal of a reconcile that takes longer is aborted. */
  reconcileTimeoutMs?: number
  log: Log
  metrics: ControllerMetrics
  /** Filled by the caches, which exist before the controller. */
  queue: ObjectQueue
}

export interface Controller {
  /** True once all caches are complete. */
  isSynced(): boolean
  /** Starts the workers once the caches are complete; rejects when the caches are not complete in time. */
  start(signal: AbortSignal): Promise<void>
  /** Takes no more work and waits for running reconciles. */
  stop(): Promise<void>
}

/** True for a programming error, which in Go would be a panic. */
const isBug = (error: unknown) =>
  !(error instanceof Error) || [TypeError, ReferenceError, RangeError, SyntaxError].some((bug) => error instanceof bug)

/** Caches → queue → reconcile, with the semantics of controller-runtime. Standbys fill the queue but run no workers. */
export function createController(options: ControllerOptions): Controller {
  const { name, log, metrics, caches, reconcileTimeoutMs = 120_000, cacheSyncTimeoutMs = 120_000 } = options
  const queue = options.queue.work
  metrics.watch(queue)
  metrics.maxConcurrentReconciles.set(options.concurrency)
  let synced = false
  const halt = Promise.withResolvers<'stopped'>()
  let workers: Promise<unknown> = Promise.resolve()
  const everySync = Promise.all(caches.map((c) => c.synced())).then(() => {
    synced = true
    options.queue.goLive()
  })
  everySync.catch(() => {}) // start() reports it

  async function work(signal: AbortSignal): Promise<void> {
    for (;;) {
      const next = await queue.take()
      if (!next || signal.aborted) return
      try {
        await runOnce(next, signal)
      } finally {
        queue.done(next.key)
      }
    }
  }

  async function runOnce(work: Work, signal: AbortSignal): Promise<void> {
    const endTimer = metrics.reconcileTime.startTimer()
    metrics.activeWorkers.inc()
    const halted = new AbortController()
    const timer = setTimeout(() => {
      metrics.timeouts.inc()
      halted.abort(new Error(`reconcile took longer than ${reconcileTimeoutMs} ms`))
    }, reconcileTimeoutMs)
    const follow = () => halted.abort(signal.reason)
    signal.addEventListener('abort', follow, { once: true })
    try {
      // Await the reconcile even when it is late: a second one for the same key must never run beside it.
      settle(work, await options.reconcile(keyOf(work), halted.signal, work.priority <= PRIORITY.initial))
    } catch (error) {
      if (!signal.aborted) fail(work, error)
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', follow)
      metrics.activeWorkers.dec()
      endTimer()
    }
  }

  function settle({ key, priority }: Work, result: Result | undefined): void {
    queue.forget(key)
    const afterMs = result?.requeueAfterMs ?? 0
    if (afterMs > 0) {
      queue.add(key, { priority: result?.requeueLast ? PRIORITY.initial : priority, afterMs })
      metrics.reconciled('requeue_after')
    } else metrics.reconciled('success')
  }

  function fail({ key, priority }: Work, error: unknown): void {
    const terminal = error instanceof TerminalError
    if (isBug(error)) metrics.panics.inc()
    if (terminal) metrics.terminalErrors.inc()
    else {
      const asked = error instanceof ClusterError ? (error.retryAfterSeconds ?? 0) * 1000 : 0
      queue.addRateLimited(key, { priority, atLeastMs: asked })
    }
    metrics.errors.inc()
    metrics.reconciled('error')
    log.error({ err: error, controller: name, object: key, terminal }, 'reconcile failed')
  }

  return {
    isSynced: () => synced,
    async start(signal) {
      let timer: NodeJS.Timeout | undefined
      const late = new Promise<never>((_, reject) => {
        const error = new Error(`${name}: caches were not complete after ${cacheSyncTimeoutMs} ms`)
        timer = setTimeout(reject, cacheSyncTimeoutMs, error)
      })
      const outcome = await Promise.race([everySync, late, halt.promise]).finally(() => clearTimeout(timer))
      if (signal.aborted || outcome === 'stopped') return
      workers = Promise.all(Array.from({ length: options.concurrency }, () => work(signal)))
      signal.addEventListener('abort', () => queue.close(), { once: true })
    },
    async stop() {
      halt.resolve('stopped')
      queue.close()
      await workers
    },
  }
}
