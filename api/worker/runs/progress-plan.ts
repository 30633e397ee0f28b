import type { Progress } from '../../db/schema/progress.ts'

export interface Run {
  /** When the run began; a resource that was created again begins later than its predecessor. */
  startedAt: Date | null
  attempts: number
}

/** What the cluster says about a run that is not over. */
export interface Running extends Run {
  progress: Progress | null
}

/** What a row says about its run. */
export interface RunSeen extends Running {
  state: 'queued' | 'running' | 'succeeded' | 'failed'
}

/**
 * Returns what to change, or undefined when the row stays unchanged. Reports of a run arrive repeated and out of order,
 * from several workers: only a later run, a later attempt or a higher percentage counts, so clients never see the
 * progress go back within one attempt.
 */
export function progressMove(row: RunSeen, now: Running): RunSeen | undefined {
  const next: RunSeen = {
    state: 'running',
    attempts: now.attempts,
    startedAt: now.startedAt ?? row.startedAt,
    progress: now.progress ?? (isSameAttempt(row, now) ? row.progress : null),
  }
  if (row.state !== 'running') return next
  const order = compare(positionOf(row), positionOf(next))
  if (order > 0 || (order === 0 && isSameProgress(row.progress, next.progress))) return undefined
  return next
}

const isSameAttempt = (row: Run, now: Run) =>
  row.attempts === now.attempts && (now.startedAt === null || row.startedAt?.getTime() === now.startedAt.getTime())

const positionOf = (run: Running) => [run.startedAt?.getTime() ?? 0, run.attempts, run.progress?.percent ?? -1]

/** Negative when `a` comes first. */
function compare(a: readonly number[], b: readonly number[]): number {
  for (const [i, value] of a.entries()) {
    const difference = value - (b[i] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

const isSameProgress = (a: Progress | null, b: Progress | null) =>
  a?.percent === b?.percent && a?.speed === b?.speed && a?.eta_sec === b?.eta_sec && a?.stage === b?.stage
