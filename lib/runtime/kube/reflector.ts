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

/** The source of a reflector's objects. All methods throw ClusterError; `Gone` means: list again. */
export interface ReflectSource<T> {
  /**
   * Streams all objects and, as the last event, a bookmark with their version. Throws Invalid on servers that support
   * only lists in pages, which need much more memory at both ends.
   */
  snapshot?(signal: AbortSignal): AsyncIterable<WatchEvent<T>>
  list(token: string | undefined, signal: AbortSignal): Promise<ListPage<T>>
  /** Ends when the server closes the stream; throws when the stream breaks or carries an ERROR event. */
  watch(resourceVersion: string, signal: AbortSignal): AsyncIterable<WatchEvent<T>>
}

export interface ReflectorTimes {
  /** A watch without events for this long is dead: bookmarks arrive about once a minute. So is a list that brings nothing more. */
  idleMs: number
  /** Lists all objects again after this time, in case the server missed an event. */
  relistMs: number
  minBackoffMs: number
  maxBackoffMs: number
  /** A watch that ends sooner and without an event counts as a failure; otherwise the reflector could busy-loop. */
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
 * A cache that follows its source until stop(): lists all objects, watches from that version, resumes after an
 * interruption from the last version seen, and lists again when that version is too old. An object that was deleted
 * during an interruption is reported as deleted; one that was re-created, as deleted and added.
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
    this.#synced.promise.catch(() => {}) // callers need not wait for it: no unhandled rejection
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

  /** Backs off exponentially, at least as long as the server's Retry-After. */
  async #rest(error: unknown): Promise<void> {
    const { minBackoffMs, maxBackoffMs } = this.#times
    const asked = error instanceof ClusterError ? (error.retryAfterSeconds ?? 0) * 1000 : 0
    this.#backoffMs = Math.min(maxBackoffMs, Math.max(this.#backoffMs * 2, minBackoffMs))
    const ms = Math.max(asked, jitter(this.#backoffMs))
    this.#tell(() => this.#handlers.onError?.(error, ms))
    await sleep(ms, undefined, { signal: this.#stop.signal }).catch(() => {})
  }

  async #listAll(): Promise<void> {
    const listing = new AbortController()
    const silence = new ClusterError('Unavailable', 'The list fell silent')
    const idle = setTimeout(() => listing.abort(silence), this.#times.idleMs)
    try {
      await this.#readAll(AbortSignal.any([listing.signal, this.#stop.signal]), () => idle.refresh())
    } catch (error) {
      throw listing.signal.aborted ? silence : error
    } finally {
      clearTimeout(idle)
    }
  }

  async #readAll(signal: AbortSignal, onEvent: () => void): Promise<void> {
    const seen = new Set<string>()
    let resourceVersion = ''
    for await (const event of this.#everything(signal)) {
      onEvent()
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

  /** All objects, then the bookmark to watch from. */
  async *#everything(signal: AbortSignal): AsyncGenerator<WatchEvent<T>> {
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
      this.#delete(old) // deleted and re-created during an interruption
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

  /** A handler that throws must not interrupt the stream. */
  #tell(call: () => void): void {
    try {
      call()
    } catch (error) {
      try {
        this.#handlers.onError?.(error, 0)
      } catch {
        // the error handler throws too: no handler is left
      }
    }
  }
}

const keyOf = ({ metadata }: KubeObject) => `${metadata.namespace ?? ''}/${metadata.name}`
