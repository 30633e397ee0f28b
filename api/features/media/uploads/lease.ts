export interface LeaseOptions {
  /** Extends the lease in the database by `leaseMs`; false when another request holds it now. */
  renew(): Promise<boolean>
  /** A renewal failed: whether the lease is still held is unknown. */
  onFailure(error: unknown): void
  /** Monotonic milliseconds: a wall clock that jumps must not keep a lease. */
  now(): number
  /** By `now`, before the lease was taken. */
  since: number
  leaseMs: number
  renewMs: number
}

export interface Lease {
  /** Aborted when the lease is lost: taken over, or not renewed in time. */
  signal: AbortSignal
  stop(): void
}

/** Renews a lease until it is stopped or lost. */
export function holdLease({ renew, onFailure, now, since, leaseMs, renewMs }: LeaseOptions): Lease {
  const lost = new AbortController()
  let end: NodeJS.Timeout | undefined
  let stopped = false
  const stop = () => {
    stopped = true
    clearInterval(timer)
    clearTimeout(end)
  }
  const lose = () => {
    stop()
    lost.abort(new Error('the lease of the merge was lost'))
  }
  // A successor may take over once the lease has run out, whatever became of the renewals: then time alone ends it.
  const loseAfter = (start: number) => {
    clearTimeout(end)
    end = setTimeout(lose, start + leaseMs - now())
  }
  const again = async () => {
    // Counted from before the query is sent: the database begins the lease later, so it never ends before this one.
    const start = now()
    try {
      const held = await renew()
      if (stopped) return
      if (held) loseAfter(start)
      else lose()
    } catch (error) {
      onFailure(error)
    }
  }
  const timer = setInterval(() => void again(), renewMs)
  loseAfter(since)
  return { signal: lost.signal, stop }
}
