import type { RetentionRun } from '../../lib/contract/retention.ts'

/** More than this between the clock of the database and that of the pod means that either may be wrong. */
export const MAX_SKEW_MS = 3_600_000
/**
 * More than this since the last run of the target: a clock may have jumped, since a month has no fewer slots than one. A run counts
 * from the start of its first pod, which may come later after the slot than that of the run before: so a day more than a month has.
 */
export const MAX_PAUSE_DAYS = 32

export interface Refusal {
  ended: 'ClockSkew' | 'ConfirmationRequired' | 'StoreUnavailable'
  reason: string
}

/** Refuses a process whose clock differs from the database's. */
export function judgeClocks(databaseMs: number, ownMs: number): (Refusal & { ended: 'ClockSkew' }) | undefined {
  const minutes = Math.round(Math.abs(databaseMs - ownMs) / 60_000)
  return Math.abs(databaseMs - ownMs) <= MAX_SKEW_MS
    ? undefined
    : {
        ended: 'ClockSkew',
        reason: `The clocks of the database and of this pod differ by ${minutes} minutes; nothing was done`,
      }
}

/** What would be done, and what is known of the time before. */
export interface Amount {
  /** What asks, in words. */
  what: 'run' | 'sweep'
  /** Since the last run or sweep of the target by a clock that is not ahead of today's; null: there was none. */
  daysSinceLast: number | null
  due: number
  /** Of those that are due, how many were when the last run passed the guards. */
  admitted?: number
  held: number
  /** So many may be due without a question. */
  few: number
  total: number
  maxDuePercent: RetentionRun['maxDuePercent']
  confirmed: boolean
  /** What was due when a person was asked; unset: not known. */
  confirmedDue?: number | undefined
}

/** Refuses what looks like a clock that has jumped, or a rule that was not meant. A person can confirm it. */
export function judgeAmount(o: Amount): (Refusal & { ended: 'ConfirmationRequired' }) | undefined {
  // A person who is asked about nothing learns to confirm everything.
  if (o.due + o.held === 0) return undefined
  const refuse = (reason: string) => ({ ended: 'ConfirmationRequired' as const, reason })
  if (o.confirmed) {
    // Of a few, a fifth is less than what an hour brings.
    const isCovered = o.confirmedDue === undefined || isAsConfirmed(o.confirmedDue, o.due, Math.max(1, o.few / 100))
    return isCovered ? undefined : refuse(`${o.due} are due, and ${o.confirmedDue} were confirmed; confirm this run`)
  }
  if (o.daysSinceLast !== null && o.daysSinceLast > MAX_PAUSE_DAYS) {
    const days = Math.floor(o.daysSinceLast)
    return refuse(
      `${o.due} are due, and the last ${o.what} was ${days} days ago by the clock of the database; confirm the ${o.what}`,
    )
  }
  const asked = o.due - (o.admitted ?? 0)
  const percent = o.total > 0 ? (100 * asked) / o.total : 0
  if (asked > o.few && percent > o.maxDuePercent) {
    const allowed = o.what === 'run' ? `maxDuePercent (${o.maxDuePercent}) allows` : `${o.maxDuePercent} percent`
    return refuse(`${o.due} of ${o.total} are due, more than ${allowed}; confirm the ${o.what}`)
  }
  return undefined
}

/** The worker's sweep has no policy that says it: the default of the kind. */
export const SWEEP_MAX_DUE_PERCENT = 20
/** Within this time of the last sweep no guard is asked: no clock can have jumped further, and what was confirmed goes on. */
export const SWEEP_GOES_ON_MS = MAX_SKEW_MS

/** Whether so many are what a person has confirmed: more comes while people think; much more is something else. */
export const isAsConfirmed = (confirmedDue: number, due: number, more = 0): boolean =>
  due <= confirmedDue + Math.max(confirmedDue / 5, more)

/** What a person has confirmed, for so many that are due now: as many, and not a month later by any clock. */
export function isConfirmed(confirmed: { due: number; days: number } | undefined, due: number): boolean {
  if (!confirmed) return false
  return isAsConfirmed(confirmed.due, due) && Math.abs(confirmed.days) <= MAX_PAUSE_DAYS
}
