import { backoffSeconds } from './backoff.ts'

export interface KeyedQueue {
  /** Looks at a key soon. A key that waits is not entered twice; one that is being looked at is looked at again. */
  add(key: string): void
  /** Keys waiting or being looked at. */
  size(): number
  /** Resolves when what is being looked at is done; what waits is forgotten. */
  stop(): Promise<void>
}

export interface KeyedQueueOptions {
  concurrency: number
  /** May ask to be called again later. */
  look(key: string): Promise<{ againAfterMs: number } | undefined>
  /** `attempt` counts failures in a row, from 1. */
  onError(error: unknown, key: string, attempt: number): void
  /** Milliseconds before a key that failed for the n-th time in a row is looked at again. */
  backoffMs?: (attempts: number) => number
}

/**
 * A set of keys to look at, not a list of what happened: ten changes are one entry, no key is looked at twice at once,
 * and a failure comes back later and later.
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
