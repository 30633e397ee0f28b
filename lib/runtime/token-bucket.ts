/** Admits `burst` calls at once and `perSecond` after that. Serves callers in the order of their calls. */
export class TokenBucket {
  readonly #perMs: number
  readonly #burst: number
  readonly #now: () => number
  #tokens: number
  #at: number

  constructor(options: { perSecond: number; burst: number; now?: () => number }) {
    this.#perMs = options.perSecond / 1000
    this.#burst = options.burst
    this.#now = options.now ?? (() => performance.now())
    this.#tokens = options.burst
    this.#at = this.#now()
  }

  /** Takes a token if one is available. */
  tryTake(): boolean {
    this.#refill()
    if (this.#tokens < 1) return false
    this.#tokens -= 1
    return true
  }

  /** Takes a token, possibly a future one, and returns in how many milliseconds the caller may use it. */
  reserve(): number {
    this.#refill()
    this.#tokens -= 1
    return this.#tokens >= 0 ? 0 : -this.#tokens / this.#perMs
  }

  #refill(): void {
    const now = this.#now()
    this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#at) * this.#perMs)
    this.#at = now
  }
}
