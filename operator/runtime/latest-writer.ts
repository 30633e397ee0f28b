import { ClusterError } from '../../lib/runtime/kube/cluster.ts'

export interface LatestWriterOptions<T> {
  /** Writes one value. Values for one key are written one after another. */
  write(key: string, value: T): Promise<void>
  intervalMs: number
  /** Called for a write that failed and will not be retried. */
  onDropped?(key: string, error: unknown): void
}

interface Slot<T> {
  pending: { value: T } | undefined
  urgent: boolean
  writing: Promise<void> | undefined
  timer: NodeJS.Timeout | undefined
}

/**
 * Writes at most once per interval and key; the newest value wins. The first value and urgent values are written at
 * once; all others wait for the end of the interval. During an outage the write is retried; a value that the cluster
 * refuses is dropped.
 */
export class LatestWriter<T> {
  readonly #options: LatestWriterOptions<T>
  readonly #slots = new Map<string, Slot<T>>()
  #closed = false

  constructor(options: LatestWriterOptions<T>) {
    this.#options = options
  }

  put(key: string, value: T, options: { urgent?: boolean } = {}): void {
    if (this.#closed) return
    const slot = this.#slots.get(key) ?? { pending: undefined, urgent: false, writing: undefined, timer: undefined }
    this.#slots.set(key, slot)
    slot.pending = { value }
    slot.urgent ||= options.urgent === true
    this.#next(key, slot)
  }

  /** Drops the pending value of this key. */
  forget(key: string): void {
    const slot = this.#slots.get(key)
    if (!slot) return
    clearTimeout(slot.timer)
    slot.pending = undefined
    this.#slots.delete(key)
  }

  get size(): number {
    return this.#slots.size
  }

  /** Tries once to write each pending value, then ends. */
  async close(): Promise<void> {
    this.#closed = true
    await Promise.all(
      [...this.#slots].map(async ([key, slot]) => {
        clearTimeout(slot.timer)
        await slot.writing
        if (slot.pending) await this.#write(key, slot)
        clearTimeout(slot.timer)
      }),
    )
    this.#slots.clear()
  }

  #next(key: string, slot: Slot<T>): void {
    if (slot.writing || (slot.timer && !slot.urgent)) return
    clearTimeout(slot.timer)
    slot.timer = undefined
    slot.writing = this.#write(key, slot).finally(() => {
      slot.writing = undefined
      if (slot.urgent && slot.pending && !this.#closed) this.#next(key, slot)
    })
  }

  async #write(key: string, slot: Slot<T>): Promise<void> {
    const taken = slot.pending
    slot.pending = undefined
    slot.urgent = false
    let waitMs = this.#options.intervalMs
    try {
      if (taken) await this.#options.write(key, taken.value)
    } catch (error) {
      if (isOutage(error)) {
        slot.pending ??= taken // keep a newer value that arrived meanwhile
        waitMs = Math.max(waitMs, (error.retryAfterSeconds ?? 0) * 1000)
      } else this.#options.onDropped?.(key, error)
    }
    if (this.#closed || this.#slots.get(key) !== slot) return
    slot.timer = setTimeout(() => this.#intervalOver(key, slot), waitMs)
  }

  /** Removes a key without new values for an interval, so that finished resources do not accumulate. */
  #intervalOver(key: string, slot: Slot<T>): void {
    slot.timer = undefined
    if (slot.pending) this.#next(key, slot)
    else if (!slot.writing) this.#slots.delete(key)
  }
}

const isOutage = (error: unknown): error is ClusterError =>
  error instanceof ClusterError && (error.reason === 'Unavailable' || error.reason === 'TooManyRequests')
