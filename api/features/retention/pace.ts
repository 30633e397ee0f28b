import { setTimeout as sleep } from 'node:timers/promises'

/** Lets so many bytes pass in a second, on average; without a limit, all of them at once. */
export function openPace(bytesPerSecond: number | undefined, signal: AbortSignal): (bytes: number) => Promise<void> {
  let freeAtMs = 0
  return async (bytes) => {
    if (bytesPerSecond === undefined || bytes <= 0) return
    const nowMs = performance.now()
    const waitMs = freeAtMs - nowMs
    freeAtMs = Math.max(freeAtMs, nowMs) + (bytes / bytesPerSecond) * 1000
    if (waitMs > 0) await sleep(waitMs, undefined, { signal })
  }
}
