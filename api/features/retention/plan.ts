import type { RetentionRun } from '../../../lib/contract/retention.ts'

/** More than this between the clock of the database and that of the pod means that either may be wrong. */
export const MAX_SKEW_MS = 3_600_000
/** More than this since the last run of the target: a clock may have jumped, since a month has no fewer slots than one. */
export const MAX_PAUSE_DAYS = 31

export interface Refusal {
  ended: 'ClockSkew' | 'ConfirmationRequired' | 'StoreUnavailable'
  reason: string
}

/** Refuses a process whose clock differs from the database's. */
export function judgeClocks(databaseMs: number, ownMs: number): Refusal | undefined {
  const minutes = Math.round(Math.abs(databaseMs - ownMs) / 60_000)
  return Math.abs(databaseMs - ownMs) <= MAX_SKEW_MS
    ? undefined
    : {
        ended: 'ClockSkew',
        reason: `The clocks of the database and of this pod differ by ${minutes} minutes; nothing was done`,
      }
}

/** Refuses what looks like a clock that has jumped, or a rule that was not meant. A person can confirm it. */
export function judgeAmount(
  o: { daysSinceLast: number | null; due: number; few: number; held: number; total: number } & Pick<
    RetentionRun,
    'maxDuePercent' | 'confirmed'
  >,
): Refusal | undefined {
  // A person who is asked about nothing learns to confirm everything.
  if (o.confirmed || o.due + o.held === 0) return undefined
  const refuse = (reason: string): Refusal => ({ ended: 'ConfirmationRequired', reason })
  if (o.daysSinceLast !== null && o.daysSinceLast > MAX_PAUSE_DAYS) {
    const days = Math.floor(o.daysSinceLast)
    return refuse(
      `${o.due} are due, and the last run was ${days} days ago by the clock of the database; confirm the run`,
    )
  }
  const percent = o.total > 0 ? (100 * o.due) / o.total : 0
  if (o.due > o.few && percent > o.maxDuePercent) {
    return refuse(
      `${o.due} of ${o.total} are due, more than maxDuePercent (${o.maxDuePercent}) allows; confirm the run`,
    )
  }
  return undefined
}

/** Words about a run whose figures do not say enough; undefined if they do. */
export function reasonOf(o: { refusal: string | undefined; held: number }): string | undefined {
  const held = o.held > 0 ? [`${o.held} due ${o.held === 1 ? 'item is' : 'items are'} kept by legal holds`] : []
  const parts = [...(o.refusal === undefined ? [] : [o.refusal]), ...held]
  return parts.length > 0 ? parts.join('; ').slice(0, 512) : undefined
}

/** After so many refusals in a row the store counts as unavailable. */
export const MAX_REFUSALS = 20
/** The same for items in a row: a store that answers, and allows no deletion. */
export const MAX_REFUSED_ITEMS = 100
/** Pause after the n-th refusal in a row, from 1: one second, doubled up to a minute. */
export const refusalPauseMs = (refusals: number): number => Math.min(60_000, 1000 * 2 ** (refusals - 1))

/** Items in work at once: while one waits for the store, others do. */
export const MAX_AT_ONCE = 4

/** Items of the next batch in work at once: half as many after the store has asked for fewer requests, one more otherwise. */
export const nextAtOnce = (atOnce: number, hasSlowedDown: boolean): number =>
  hasSlowedDown ? Math.max(1, Math.floor(atOnce / 2)) : Math.min(MAX_AT_ONCE, atOnce + 1)

/** Whether a run puts objects into the cold tier. */
export const needsColdTier = ({ rules }: Pick<RetentionRun, 'rules'>): boolean =>
  rules.some((rule) => rule.action === 'moveToTier' && rule.tier === 'cold')

/** The share of one process in the bytes per second of its run; undefined without a limit. */
export const shareOf = ({ bytesPerSecond, parallelism }: RetentionRun): number | undefined =>
  bytesPerSecond === undefined ? undefined : Math.max(1, bytesPerSecond / parallelism)
