import { setTimeout as sleep } from 'node:timers/promises'
import type { StoreError } from './object-store.ts'

/** Retries idempotent work. Throws the StoreError of the last attempt, or the reason of the signal. */
export type Again = <T>(work: () => Promise<T>, signal?: AbortSignal) => Promise<T>

interface Policy {
  asStoreError(error: unknown): StoreError
  /** Whether a retry of the same request may succeed. */
  mayPass(error: StoreError): boolean
  /** The pause before each retry, in milliseconds. */
  pausesMs: readonly number[]
}

export const retrying =
  ({ asStoreError, mayPass, pausesMs }: Policy): Again =>
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
