import type { ConversionProgress, MediaRow } from '../../../db/schema/media.ts'

export interface Run {
  /** When the run began; a resource that was created again begins later than its predecessor. */
  startedAt: Date | null
  attempts: number
}

/** What the cluster says about a running conversion. */
export interface RunningConversion extends Run {
  progress: ConversionProgress | null
}

export type ConversionSeen = Pick<
  MediaRow,
  'conversionState' | 'conversionAttempts' | 'conversionStartedAt' | 'conversionProgress'
>

/**
 * Returns the columns to change, or undefined when the row stays unchanged. Reports of a run arrive repeated and out of
 * order, from several workers: only a later run, a later attempt or a higher percentage counts, so clients never see
 * the progress go back within one attempt.
 */
export function progressMove(row: ConversionSeen, now: RunningConversion): ConversionSeen | undefined {
  const next: ConversionSeen = {
    conversionState: 'running',
    conversionAttempts: now.attempts,
    conversionStartedAt: now.startedAt ?? row.conversionStartedAt,
    conversionProgress: now.progress ?? (isSameAttempt(row, now) ? row.conversionProgress : null),
  }
  if (row.conversionState !== 'running') return next
  const order = compare(positionOf(row), positionOf(next))
  if (order > 0 || (order === 0 && isSameProgress(row.conversionProgress, next.conversionProgress))) return undefined
  return next
}

const isSameAttempt = (row: ConversionSeen, now: RunningConversion) =>
  row.conversionAttempts === now.attempts &&
  (now.startedAt === null || row.conversionStartedAt?.getTime() === now.startedAt.getTime())

const positionOf = (c: ConversionSeen) => [
  c.conversionStartedAt?.getTime() ?? 0,
  c.conversionAttempts,
  c.conversionProgress?.percent ?? -1,
]

/** Negative when `a` comes first. */
function compare(a: readonly number[], b: readonly number[]): number {
  for (const [i, value] of a.entries()) {
    const difference = value - (b[i] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

const isSameProgress = (a: ConversionProgress | null, b: ConversionProgress | null) =>
  a?.percent === b?.percent && a?.speed === b?.speed && a?.eta_sec === b?.eta_sec && a?.stage === b?.stage
