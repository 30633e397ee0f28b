import { backoffSeconds } from './backoff.ts'

export interface KeyedQueue {
  /** Enqueues a key. A key that already waits is not enqueued twice; a key in progress is looked at again. */
  add(key: string): void
  /** Number of keys that wait, for a retry too, or are in progress. */
  size(): number
  /** Drops the waiting keys and resolves when the keys in progress are done. */
  stop(): Promise<void>
}

export interface KeyedQueueOptions {
  concurrency: number
  /** Returns `againAfterMs` to be called again after that time. */
  look(key: string): Promise<{ againAfterMs: number } | undefined>
  /** `attempt` counts failures in a row, from 1. */
  onError(error: unknown, key: string, attempt: number): void
  /** Milliseconds between the n-th failure in a row of a key and its retry. */
  backoffMs?: (attempts: number) => number
}

/**
 * Holds a set of keys to look at, not a list of changes: ten changes of a key are one entry. The queue never looks at a
 * key twice at once and retries failures with a growing delay.
 */
export function keyedQueue(o: KeyedQueueOptions): KeyedQueue {
  const { backoffMs = (n) => Math.min(60, backoffSeconds(n)) * 1000 } = o
  const waiting = new Set<string>()
  const running = new Map<string, Promise<void>>()
  const failures = new Map<string, number>()
  const timers = new Map<string, NodeJS.Timeout>()
  let isStopped = false

  function add(key: string): void {
    if (isStopped) return
    clearTimeout(timers.get(key))
    timers.delete(key)
    waiting.add(key)
    pump()
  }

  function addLater(key: string, ms: number): void {
    if (isStopped || waiting.has(key)) return
    clearTimeout(timers.get(key))
    timers.set(
      key,
      setTimeout(() => add(key), ms),
    )
  }

  function pump(): void {
    for (const key of waiting) {
      if (isStopped || running.size >= o.concurrency) return
      if (running.has(key)) continue
      waiting.delete(key)
      const work = look(key).finally(() => {
        running.delete(key)
        pump()
      })
      running.set(key, work)
    }
  }

  async function look(key: string): Promise<void> {
    const attempt = (failures.get(key) ?? 0) + 1
    try {
      const again = await o.look(key)
      failures.delete(key)
      if (again) addLater(key, again.againAfterMs)
    } catch (error) {
      failures.set(key, attempt)
      o.onError(error, key, attempt)
      addLater(key, backoffMs(attempt))
    }
  }

  return {
    add,
    size: () => waiting.size + running.size + timers.size,
    async stop() {
      isStopped = true
      waiting.clear()
      for (const timer of timers.values()) clearTimeout(timer)
      timers.clear()
      await Promise.all(running.values())
    },
  }
}
