import { setTimeout as sleep } from 'node:timers/promises'
import {
  ClusterError,
  isClusterError,
  type KubeObject,
  type ObjectKey,
  type ReflectHandlers,
  type Reflection,
  type ReflectOptions,
} from './cluster.ts'

export interface ListPage<T> {
  items: T[]
  resourceVersion: string
  /** Token of the next page; absent on the last one. */
  continue?: string
}

export type WatchEvent<T> =
  | { type: 'ADDED' | 'MODIFIED' | 'DELETED'; object: T }
  | { type: 'BOOKMARK'; object: { metadata: { resourceVersion: string; annotations?: Record<string, string> } } }

/** Where a reflector gets its objects from. Both methods throw ClusterError; `Gone` means: list again. */
export interface ReflectSource<T> {
  /**
   * Every object one by one, then, as the last event, a bookmark with the version of all that. Throws Invalid where
   * lists can only be had in pages; they need much more memory at both ends.
   */
  snapshot?(signal: AbortSignal): AsyncIterable<WatchEvent<T>>
  list(token: string | undefined, signal: AbortSignal): Promise<ListPage<T>>
  /** Ends when the server closes the stream, throws when it breaks or has said ERROR. */
  watch(resourceVersion: string, signal: AbortSignal): AsyncIterable<WatchEvent<T>>
}

export interface ReflectorTimes {
  /** A watch that is silent for so long is dead: bookmarks arrive about once a minute. */
  idleMs: number
  /** Lists everything again after so long, in case a server ever forgot to tell us something. */
  relistMs: number
  minBackoffMs: number
  maxBackoffMs: number
  /** A watch that ends within so long without an event counts as a failure, or two servers could spin us. */
  shortWatchMs: number
}
const TIMES: ReflectorTimes = {
  idleMs: 150_000,
  relistMs: 600_000,
  minBackoffMs: 800,
  maxBackoffMs: 30_000,
  shortWatchMs: 1_000,
}

const jitter = (ms: number) => ms * (0.8 + Math.random() * 0.4)

/**
 * A cache that follows its source for ever: list in pages, watch from there, resume after an interruption from the last
 * version seen, list again when that version is too old. What vanished meanwhile is reported as deleted, what was
 * deleted and re-created as both. Nothing but stop() ends it.
 */
export class Reflector<T extends KubeObject> implements Reflection<T> {
  readonly #source: ReflectSource<T>
  readonly #handlers: ReflectHandlers<T>
  readonly #trim: (object: T) => T
  readonly #times: ReflectorTimes
  readonly #store = new Map<string, T>()
  readonly #stop = new AbortController()
  readonly #synced = Promise.withResolvers<void>()
  readonly #running: Promise<void>
  #resourceVersion = ''
  #listedAt = 0
  #backoffMs = 0
  #inPages = false

  constructor(
    source: ReflectSource<T>,
    handlers: ReflectHandlers<T>,
    options: Pick<ReflectOptions<T>, 'trim'> & { times?: Partial<ReflectorTimes> } = {},
  ) {
    this.#source = source
    this.#handlers = handlers
    this.#trim = options.trim ?? ((object) => object)
    this.#times = { ...TIMES, ...options.times }
    this.#synced.promise.catch(() => {}) // nobody has to wait for it
    this.#running = this.#loop()
  }

  get(key: ObjectKey): T | undefined {
    return this.#store.get(`${key.namespace}/${key.name}`)
  }

  list(): T[] {
    return [...this.#store.values()]
  }

  synced(): Promise<void> {
    return this.#synced.promise
  }

  async stop(): Promise<void> {
    this.#stop.abort(new ClusterError('Unavailable', 'The reflection has been stopped'))
    await this.#running
    this.#synced.reject(this.#stop.signal.reason)
  }

  async #loop(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      try {
        if (!this.#resourceVersion) await this.#listAll()
        await this.#watch()
      } catch (error) {
        if (signal.aborted) return
        if (isClusterError(error, 'Gone')) this.#resourceVersion = ''
        await this.#rest(error)
      }
    }
  }

  /** Longer after each failure in a row, never shorter than the server asked for. */
  async #rest(error: unknown): Promise<void> {
    const { minBackoffMs, maxBackoffMs } = this.#times
    const asked = error instanceof ClusterError ? (error.retryAfterSeconds ?? 0) * 1000 : 0
    this.#backoffMs = Math.min(maxBackoffMs, Math.max(this.#backoffMs * 2, minBackoffMs))
    const ms = Math.max(asked, jitter(this.#backoffMs))
    this.#tell(() => this.#handlers.onError?.(error, ms))
    await sleep(ms, undefined, { signal: this.#stop.signal }).catch(() => {})
  }

  async #listAll(): Promise<void> {
    const seen = new Set<string>()
    let resourceVersion = ''
    for await (const event of this.#everything()) {
      const { object } = event
      if (event.type === 'BOOKMARK') resourceVersion = event.object.metadata.resourceVersion
      else if (event.type === 'DELETED') this.#drop(event.object, seen)
      else {
        seen.add(keyOf(object as T))
        this.#set(object as T)
      }
    }
    for (const [key, object] of this.#store) if (!seen.has(key)) this.#delete(object)
    this.#resourceVersion = resourceVersion
    this.#listedAt = performance.now()
    this.#synced.resolve()
  }

  #drop(object: T, seen: Set<string>): void {
    seen.delete(keyOf(object))
    this.#delete(object)
  }

  /** All there is, ending with the bookmark to watch from. */
  async *#everything(): AsyncGenerator<WatchEvent<T>> {
    const { signal } = this.#stop
    if (this.#source.snapshot && !this.#inPages) {
      try {
        yield* this.#source.snapshot(signal)
        return
      } catch (error) {
        if (!isClusterError(error, 'Invalid')) throw error
        this.#inPages = true
      }
    }
    let token: string | undefined
    do {
      const page = await this.#source.list(token, signal)
      for (const object of page.items) yield { type: 'ADDED', object }
      token = page.continue
      if (!token) yield { type: 'BOOKMARK', object: { metadata: { resourceVersion: page.resourceVersion } } }
    } while (token)
  }

  async #watch(): Promise<void> {
    const watching = new AbortController()
    const signal = AbortSignal.any([watching.signal, this.#stop.signal])
    const end = (why: 'idle' | 'relist') => watching.abort(why)
    const relistIn = Math.max(0, this.#listedAt + jitter(this.#times.relistMs) - performance.now())
    const relist = setTimeout(end, relistIn, 'relist')
    const idle = setTimeout(end, this.#times.idleMs, 'idle')
    const startedAt = performance.now()
    let events = 0
    try {
      for await (const event of this.#source.watch(this.#resourceVersion, signal)) {
        idle.refresh()
        events += 1
        this.#backoffMs = 0
        this.#apply(event)
      }
    } catch (error) {
      if (!watching.signal.aborted) throw error
    } finally {
      clearTimeout(idle)
      clearTimeout(relist)
    }
    if (watching.signal.reason === 'idle') throw new ClusterError('Unavailable', 'The watch fell silent')
    if (watching.signal.reason === 'relist') this.#resourceVersion = ''
    else if (events === 0 && performance.now() - startedAt < this.#times.shortWatchMs) {
      throw new ClusterError('Unavailable', 'The watch ended at once without an event')
    }
  }

  #apply(event: WatchEvent<T>): void {
    if (event.type === 'DELETED') this.#delete(event.object)
    else if (event.type !== 'BOOKMARK') this.#set(event.object)
    this.#resourceVersion = event.object.metadata.resourceVersion ?? this.#resourceVersion
  }

  #set(fresh: T): void {
    const object = this.#trim(fresh)
    const key = keyOf(object)
    let old = this.#store.get(key)
    if (old && old.metadata.uid !== object.metadata.uid) {
      this.#delete(old) // deleted and re-created while we were not looking
      old = undefined
    }
    if (old && old.metadata.resourceVersion === object.metadata.resourceVersion) return
    this.#store.set(key, object)
    this.#tell(() => this.#handlers.onSet(object, old))
  }

  #delete(fresh: T): void {
    const object = this.#trim(fresh)
    this.#store.delete(keyOf(object))
    this.#tell(() => this.#handlers.onDelete(object))
  }

  /** A handler that throws must not cost the cache its place in the stream. */
  #tell(call: () => void): void {
    try {
      call()
    } catch (error) {
      try {
        this.#handlers.onError?.(error, 0)
      } catch {
        // the handler of errors is broken too: there is nobody left to tell
      }
    }
  }
}

const keyOf = ({ metadata }: KubeObject) => `${metadata.namespace ?? ''}/${metadata.name}`
