import { TokenBucket } from '../../lib/runtime/token-bucket.ts'

/** Higher first. What a cache already held at start may wait for what is changing now. */
export const PRIORITY = { live: 0, initial: -100 } as const

export interface AddOptions {
  /** Kept when higher than what is already waiting. Default: live. */
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
  /** All retries together; one key's backoff and this limit both count, the longer one wins. */
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

const NOBODY: QueueWatcher = { added() {}, depth() {}, started() {}, finished() {}, retried() {} }
/** What setTimeout can hold; longer waits are cut, and whoever asked will ask again. */
const MAX_TIMER_MS = 2 ** 31 - 1

/**
 * A set of keys to look at, not a list of things that happened: ten changes of one object are one entry, a key is
 * never handed to two workers, and one that is added while it is worked on comes back when that is done.
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
    this.#watcher = options.watcher ?? NOBODY
  }

  /** Keys that can be taken at once. */
  get length(): number {
    let n = 0
    for (const bucket of this.#waiting.values()) n += bucket.size
    return n
  }

  /** How long each key that is being worked on has been so, in seconds. */
  unfinished(): number[] {
    return [...this.#processing.values()].map((since) => (this.#now() - since) / 1000)
  }

  add(key: string, { priority = PRIORITY.live, afterMs = 0 }: AddOptions = {}): void {
    if (this.#closed) return
    if (afterMs > 0) this.#addLater(key, priority, afterMs)
    else this.#addNow(key, priority)
  }

  /** After a failure: later each time, until forget(). Never before `atLeastMs`. */
  addRateLimited(key: string, options: { priority?: number; atLeastMs?: number } = {}): void {
    const { priority = PRIORITY.live, atLeastMs = 0 } = options
    const failures = this.#failures.get(key) ?? 0
    this.#failures.set(key, failures + 1)
    this.#watcher.retried()
    const own = Math.min(this.#maxBackoffMs, this.#minBackoffMs * 2 ** failures)
    this.add(key, { priority, afterMs: Math.max(own, this.#retries.reserve(), atLeastMs) })
  }

  /** The next failure of this key counts as the first. */
  forget(key: string): void {
    this.#failures.delete(key)
  }

  /** The most urgent key, as soon as there is one; undefined once the queue is closed. Call done() when finished. */
  take(): Promise<Work | undefined> {
    const work = this.#closed ? undefined : this.#next()
    if (work || this.#closed) return Promise.resolve(work)
    return new Promise((resolve) => this.#takers.push(resolve))
  }

  /** The work on a key has ended, well or badly. */
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

  /** Nothing more is handed out and nothing more accepted. Whatever is left is found again by whoever starts next. */
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
