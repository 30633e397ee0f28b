import { TokenBucket } from '../../lib/runtime/token-bucket.ts'

/** Higher first. Objects from the initial list wait behind live changes. */
export const PRIORITY = { live: 0, initial: -100 } as const

export interface AddOptions {
  /** Raises the priority of a waiting key, never lowers it. Default: live. */
  priority?: number
  /** The earlier of two times wins. */
  afterMs?: number
}

export interface QueueWatcher {
  added(priority: number): void
  depth(priority: number, depth: number): void
  started(waitedSeconds: number): void
  finished(workedSeconds: number): void
  retried(): void
}

export interface QueueOptions {
  minBackoffMs?: number
  maxBackoffMs?: number
  /** Limits all retries together. Of this limit and the key's own backoff, the longer one applies. */
  retries?: TokenBucket
  watcher?: QueueWatcher
  now?: () => number
}

interface Waiting {
  priority: number
  since: number
}
interface Later {
  priority: number
  at: number
  timer: NodeJS.Timeout
}
export interface Work {
  key: string
  priority: number
}

const NO_WATCHER: QueueWatcher = { added() {}, depth() {}, started() {}, finished() {}, retried() {} }
/** The maximum of setTimeout. Longer waits are cut; the reconcile at that time requeues the key again. */
const MAX_TIMER_MS = 2 ** 31 - 1

/**
 * A set of keys to reconcile, not a list of changes: ten changes of one object are one entry, two workers never get the
 * same key, and a key that is added while it is processed is requeued afterwards.
 */
export class WorkQueue {
  readonly #waiting = new Map<number, Map<string, Waiting>>()
  readonly #later = new Map<string, Later>()
  readonly #processing = new Map<string, number>()
  /** Added while being processed. */
  readonly #dirty = new Map<string, number>()
  readonly #failures = new Map<string, number>()
  readonly #takers: ((work: Work | undefined) => void)[] = []
  readonly #minBackoffMs: number
  readonly #maxBackoffMs: number
  readonly #retries: TokenBucket
  readonly #watcher: QueueWatcher
  readonly #now: () => number
  #closed = false

  constructor(options: QueueOptions = {}) {
    this.#minBackoffMs = options.minBackoffMs ?? 5
    this.#maxBackoffMs = options.maxBackoffMs ?? 1_000_000
    this.#now = options.now ?? (() => performance.now())
    this.#retries = options.retries ?? new TokenBucket({ perSecond: 10, burst: 100, now: this.#now })
    this.#watcher = options.watcher ?? NO_WATCHER
  }

  /** Number of keys that can be taken now. */
  get length(): number {
    let n = 0
    for (const bucket of this.#waiting.values()) n += bucket.size
    return n
  }

  /** Seconds since each key that is being processed was taken. */
  unfinished(): number[] {
    return [...this.#processing.values()].map((since) => (this.#now() - since) / 1000)
  }

  add(key: string, { priority = PRIORITY.live, afterMs = 0 }: AddOptions = {}): void {
    if (this.#closed) return
    if (afterMs > 0) this.#addLater(key, priority, afterMs)
    else this.#addNow(key, priority)
  }

  /** Requeues after a failure with exponential backoff until forget(), and never before `atLeastMs`. */
  addRateLimited(key: string, options: { priority?: number; atLeastMs?: number } = {}): void {
    const { priority = PRIORITY.live, atLeastMs = 0 } = options
    const failures = this.#failures.get(key) ?? 0
    this.#failures.set(key, failures + 1)
    this.#watcher.retried()
    const own = Math.min(this.#maxBackoffMs, this.#minBackoffMs * 2 ** failures)
    this.add(key, { priority, afterMs: Math.max(own, this.#retries.reserve(), atLeastMs) })
  }

  /** Resets the backoff of this key. */
  forget(key: string): void {
    this.#failures.delete(key)
  }

  /** Waits for the most urgent key; undefined once the queue is closed. The caller must call done() afterwards. */
  take(): Promise<Work | undefined> {
    const work = this.#closed ? undefined : this.#next()
    if (work || this.#closed) return Promise.resolve(work)
    return new Promise((resolve) => this.#takers.push(resolve))
  }

  /** Marks the processing of a key as ended, with or without an error. */
  done(key: string): void {
    const since = this.#processing.get(key)
    if (since === undefined) return
    this.#processing.delete(key)
    this.#watcher.finished((this.#now() - since) / 1000)
    const again = this.#dirty.get(key)
    if (again === undefined) return
    this.#dirty.delete(key)
    this.add(key, { priority: again })
  }

  /** Drops all keys and accepts no more. The next leader's initial list finds them again. */
  close(): void {
    this.#closed = true
    for (const { timer } of this.#later.values()) clearTimeout(timer)
    this.#later.clear()
    this.#waiting.clear()
    this.#dirty.clear()
    for (const resolve of this.#takers.splice(0)) resolve(undefined)
  }

  #addLater(key: string, priority: number, afterMs: number): void {
    const at = this.#now() + Math.min(afterMs, MAX_TIMER_MS)
    const known = this.#later.get(key)
    const highest = Math.max(priority, known?.priority ?? priority)
    if (known && known.at <= at) {
      known.priority = highest
      return
    }
    clearTimeout(known?.timer)
    const timer = setTimeout(() => {
      const due = this.#later.get(key)
      this.#later.delete(key)
      this.#addNow(key, due?.priority ?? highest)
    }, at - this.#now())
    this.#later.set(key, { priority: highest, at, timer })
  }

  #addNow(key: string, priority: number): void {
    if (this.#processing.has(key)) {
      this.#dirty.set(key, Math.max(priority, this.#dirty.get(key) ?? priority))
      return
    }
    const known = this.#find(key)
    if (known && known.priority >= priority) return
    if (known) this.#bucket(known.priority).delete(key)
    else this.#watcher.added(priority)
    this.#bucket(priority).set(key, { priority, since: known?.since ?? this.#now() })
    if (known) this.#tellDepth(known.priority)
    this.#tellDepth(priority)
    const taker = this.#takers.shift()
    if (taker) taker(this.#next())
  }

  #next(): Work | undefined {
    const priorities = [...this.#waiting.keys()].sort((a, b) => b - a)
    for (const priority of priorities) {
      for (const [key, { since }] of this.#bucket(priority)) {
        this.#bucket(priority).delete(key)
        this.#tellDepth(priority)
        this.#processing.set(key, this.#now())
        this.#watcher.started((this.#now() - since) / 1000)
        return { key, priority }
      }
    }
    return undefined
  }

  #find(key: string): Waiting | undefined {
    for (const bucket of this.#waiting.values()) {
      const found = bucket.get(key)
      if (found) return found
    }
    return undefined
  }

  #bucket(priority: number): Map<string, Waiting> {
    const known = this.#waiting.get(priority)
    if (known) return known
    const fresh = new Map<string, Waiting>()
    this.#waiting.set(priority, fresh)
    return fresh
  }

  #tellDepth(priority: number): void {
    this.#watcher.depth(priority, this.#bucket(priority).size)
  }
}
