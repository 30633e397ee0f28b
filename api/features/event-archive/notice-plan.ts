const DAY_MS = 86_400_000

/** Before the purge: when its owner is told for the first time, and for the last time. */
const FIRST_DAYS = 30
export const LAST_DAYS = 7
/** A notice that named a time longer ago than this is forgotten: the owner counts on it no more. */
export const FORGOTTEN_DAYS = 30
/** Rows are looked at again after this time at the latest: periods of policies and organizations change. */
const LOOK_AGAIN_DAYS = 7
const HELD_DAYS = 1
/** Rows are found so long before the purge: the days of a month differ, and what is early is only looked at again. */
export const FOUND_DAYS = FIRST_DAYS + 3

/** A mailbox that refuses so many last notices in a row, each for the time being, counts as one that refuses them for good. */
export const MAX_REFUSED = 4

export const NO_NOTICE = 0
export const FIRST_NOTICE = 1
export const LAST_NOTICE = 2
export type Notice = typeof NO_NOTICE | typeof FIRST_NOTICE | typeof LAST_NOTICE

/** What the owner of an event was told last. Times are those of `app_now()`, in milliseconds. */
export interface Told {
  notice: Notice
  /** When the event is purged, as the notice says; null without one. */
  namedMs: number | null
}

export interface NoticeSeen {
  nowMs: number
  /** By the policy in force and the organization, rounded up. */
  purgeMs: number
  told: Told
  isHeld: boolean
  /** What was told went to another than the one who cares for the event now. */
  isToAnother: boolean
  /** The last notice has not left yet. */
  isUnheard: boolean
}

export interface NextNotice {
  told: Told
  /** Whether the owner is told this now. */
  isNew: boolean
  lookAgainMs: number
}

/**
 * Whether the owner is to be told now when the event is purged. The last notice names a time that is at least seven days ahead,
 * and the event is purged no earlier, also when a period becomes shorter.
 */
export function nextNotice(seen: NoticeSeen): NextNotice {
  const { nowMs, purgeMs, told: before, isHeld } = seen
  const after = (days: number) => nowMs + days * DAY_MS
  const silent = (told: Told, lookAgainMs: number) => ({ told, isNew: false, lookAgainMs })
  // Who is told of a purge that a hold keeps from happening would be told wrongly; it is due anew when the hold ends.
  if (isHeld) return silent({ notice: NO_NOTICE, namedMs: null }, after(HELD_DAYS))
  const told: Told = isForgotten(seen) ? { notice: NO_NOTICE, namedMs: null } : before
  const latest = after(LOOK_AGAIN_DAYS)
  if (told.notice === LAST_NOTICE) {
    const { namedMs } = told
    return silent(told, namedMs !== null && namedMs > nowMs ? Math.min(namedMs, latest) : latest)
  }
  const daysBefore = (days: number) => purgeMs - days * DAY_MS
  if (nowMs >= daysBefore(LAST_DAYS)) {
    const namedMs = Math.max(purgeMs, after(LAST_DAYS))
    return { told: { notice: LAST_NOTICE, namedMs }, isNew: true, lookAgainMs: Math.min(namedMs, latest) }
  }
  if (told.notice === FIRST_NOTICE) return silent(told, Math.min(daysBefore(LAST_DAYS), latest))
  if (nowMs < daysBefore(FIRST_DAYS)) return silent(told, Math.min(daysBefore(FIRST_DAYS), latest))
  const first: Told = { notice: FIRST_NOTICE, namedMs: purgeMs }
  return { told: first, isNew: true, lookAgainMs: Math.min(daysBefore(LAST_DAYS), latest) }
}

/**
 * The purge has moved behind the time that was named, or the time has passed long ago, or before the notice left, or another
 * one was told.
 */
function isForgotten({ nowMs, purgeMs, told: { namedMs }, isToAnother, isUnheard }: NoticeSeen): boolean {
  if (namedMs === null) return false
  return (
    isToAnother || purgeMs > namedMs || nowMs > namedMs + FORGOTTEN_DAYS * DAY_MS || (isUnheard && nowMs >= namedMs)
  )
}
