/** Deaths within this time count together. */
export const WINDOW_MS = 300_000
/** One more within the window while none listens, and the program ends: a new container helps then, or a person. */
export const MAX_DEATHS = 5
const FIRST_WAIT_MS = 250
const MAX_WAIT_MS = 30_000

/**
 * Milliseconds until a process that has just died is replaced, or undefined when the program should give up. `deaths`:
 * those of all processes of the replica, the last one included, in milliseconds of the clock that `now` is of.
 * `listening`: how many others serve.
 */
export function waitAfter(deaths: readonly number[], now: number, listening: number): number | undefined {
  const recent = deaths.filter((at) => now - at < WINDOW_MS).length
  if (recent > MAX_DEATHS && listening === 0) return undefined
  return Math.min(FIRST_WAIT_MS * 2 ** Math.max(0, recent - 1), MAX_WAIT_MS)
}

export interface Patience {
  /** Between two questions to each process, and as long as each waits for its answer. */
  askMs: number
  /** Questions in a row without an answer. They count turns of the supervisor, which may have been suspended itself. */
  maxMissed: number
  /** Until a process has begun to answer. */
  beginMs: number
  /** From the beginning of a stop until those that have not ended are killed. */
  stopMs: number
}

/** The sum for one that hangs: 25 to 30 s. */
export const PATIENCE = { askMs: 5000, maxMissed: 5, beginMs: 60_000 }

interface Seen {
  hasBegun: boolean
  /** Milliseconds since it was started. */
  ageMs: number
  missed: number
}

/** Why a process should be killed, or undefined. */
export function hangs(seen: Seen, patience: Omit<Patience, 'stopMs'>): string | undefined {
  if (!seen.hasBegun) return seen.ageMs >= patience.beginMs ? 'it has not begun to answer' : undefined
  return seen.missed >= patience.maxMissed ? 'it does not answer' : undefined
}

/** Whether a process that was told to end did as it was told. Before it handles signals, a signal ends it. */
export function isClean(code: number | null, signal: string | null, hasBegun: boolean): boolean {
  if (code === 0) return true
  return !hasBegun && (code === 130 || code === 143 || signal === 'SIGTERM' || signal === 'SIGINT')
}

/** What V8 takes at most by itself. */
const MAX_HEAP_MIB = 4096
/** Of one process: what it needs to begin, and 64 MiB of JSON bodies (docs/limits.md). */
export const MIN_HEAP_MIB = 160

/**
 * MiB of the heap of each process, young generation included: together half of the memory, as V8 would give one process.
 * Undefined when that is too little. `memory`: bytes of the machine or container.
 */
export function heapOf(memory: number, processes: number): number | undefined {
  const part = Math.min(MAX_HEAP_MIB, Math.floor(memory / 2 ** 21 / processes))
  return part < MIN_HEAP_MIB ? undefined : part
}

/** Whether options of Node, of its command line or NODE_OPTIONS, already say how large a heap becomes. */
export const saysHeap = (options: string): boolean => /--max[-_](old[-_]space|heap)[-_]size/.test(options)

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
