/** Deaths within this time count together. */
export const WINDOW_MS = 300_000
/** One more within the window, and the program ends: a new container helps then, or a person. */
export const MAX_DEATHS = 5
const FIRST_WAIT_MS = 250
const MAX_WAIT_MS = 30_000

/**
 * Milliseconds until a process that has just died is replaced, or undefined when the program should give up. `deaths`:
 * those of all processes of the replica, the last one included, in milliseconds of the clock that `now` is of.
 */
export function waitAfter(deaths: readonly number[], now: number): number | undefined {
  const recent = deaths.filter((at) => now - at < WINDOW_MS).length
  if (recent > MAX_DEATHS) return undefined
  return Math.min(FIRST_WAIT_MS * 2 ** Math.max(0, recent - 1), MAX_WAIT_MS)
}

interface Shared {
  DATABASE_CONNECTIONS: number
  MAX_BODIES: number
  MAX_EVENT_STREAMS: number
}

/** What each of the processes may take of that which the settings give to the replica. */
export function shareOf<C extends Shared>(config: C, processes: number): C {
  const part = (whole: number) => Math.max(1, Math.floor(whole / processes))
  return {
    ...config,
    DATABASE_CONNECTIONS: part(config.DATABASE_CONNECTIONS),
    MAX_BODIES: part(config.MAX_BODIES),
    MAX_EVENT_STREAMS: part(config.MAX_EVENT_STREAMS),
  }
}
