import type { Uuid } from '../../../lib/contract/ids.ts'

/**
 * What this process has seen of rows, by a clock that goes on when the time of day is set. The times in a status are old
 * after every pause of the cluster, the operator or the worker; a worker gives up only what it has watched for itself.
 * A worker that starts knows nothing.
 */
export interface Sightings {
  /** For how many seconds every look at the row has shown the same; 0 at the first look. */
  secondsOf(id: Uuid, shown: string): number
  /** The row shows something else: the next look is the first. */
  forget(id: Uuid): void
  sawSuspended(id: Uuid): void
  /** Seconds since this process last saw the resource of the row suspended; undefined if it never did. */
  secondsSinceSuspended(id: Uuid): number | undefined
  /** Drops rows that no sweep has looked at for a month. */
  prune(): void
}

const MONTH_MS = 30 * 86_400_000

export function openSightings(nowMs: () => number = () => performance.now()): Sightings {
  const shown = new Map<Uuid, { shown: string; sinceMs: number; lastMs: number }>()
  const suspended = new Map<Uuid, { lastMs: number }>()
  return {
    secondsOf(id, now) {
      const before = shown.get(id)
      const lastMs = nowMs()
      const sinceMs = before?.shown === now ? before.sinceMs : lastMs
      shown.set(id, { shown: now, sinceMs, lastMs })
      return (lastMs - sinceMs) / 1000
    },
    forget: (id) => void shown.delete(id),
    sawSuspended: (id) => void suspended.set(id, { lastMs: nowMs() }),
    secondsSinceSuspended(id) {
      const last = suspended.get(id)
      return last && (nowMs() - last.lastMs) / 1000
    },
    prune() {
      const oldest = nowMs() - MONTH_MS
      for (const rows of [shown, suspended]) {
        for (const [id, { lastMs }] of rows) if (lastMs < oldest) rows.delete(id)
      }
    },
  }
}
