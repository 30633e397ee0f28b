const FIRST_MS = 10_000
const LONGEST_MS = 300_000

/** Resources whose helpers the API server has refused, and when to try again. Lost with the process, which is harmless. */
export class RefusedHelpers {
  readonly #known = new Map<string, { times: number; notBefore: Date }>()

  /** Undefined for a resource whose helpers were not refused. */
  notBefore(resource: string): Date | undefined {
    return this.#known.get(resource)?.notBefore
  }

  /** Milliseconds until the next try, each time twice as many up to a maximum. */
  refused(resource: string, now: Date): number {
    const times = (this.#known.get(resource)?.times ?? 0) + 1
    const waitMs = Math.min(LONGEST_MS, FIRST_MS * 2 ** (times - 1))
    this.#known.set(resource, { times, notBefore: new Date(now.getTime() + waitMs) })
    return waitMs
  }

  forget(resource: string): void {
    this.#known.delete(resource)
  }
}
