import { setTimeout as sleep } from 'node:timers/promises'

/** Retries idempotent work. Throws the error of the last attempt as its policy knows it, or the reason of the signal. */
export type Again = <T>(work: () => Promise<T>, signal?: AbortSignal) => Promise<T>

interface Policy<E> {
  asStoreError(error: unknown): E
  /** Whether a retry of the same request may succeed. */
  mayPass(error: E): boolean
  /** The pause before each retry, in milliseconds. */
  pausesMs: readonly number[]
}

export const retrying =
  <E>({ asStoreError, mayPass, pausesMs }: Policy<E>): Again =>
  async (work, signal) => {
    for (let attempt = 0; ; attempt++) {
      try {
        return await work()
      } catch (error) {
        signal?.throwIfAborted()
        const known = asStoreError(error)
        const pause = pausesMs[attempt]
        if (pause === undefined || !mayPass(known)) throw known
        await sleep(pause, undefined, signal ? { signal } : {})
      }
    }
  }
