import type { RetentionPolicyStatus } from '../../crds/retention-policy.ts'
import type { Schedule } from './schedule.ts'
import { closing, opening, type Window } from './window.ts'

/** A clock that was ahead by more has written times that must not count, or nothing would start until then. */
const SKEW_MS = 3_600_000

export interface Followed {
  schedule: string
  scheduledSince: string
}

interface Given {
  /** Of the policy; undefined for one that the operator has never seen. */
  status: RetentionPolicyStatus | undefined
  schedule: string
  createdAt: string
  now: Date
}

const isAhead = (time: string | undefined, now: Date) =>
  time !== undefined && Date.parse(time) > now.getTime() + SKEW_MS

/**
 * Since when slots count: since the creation, also when the operator was not there then, and since the schedule was
 * changed or followed again. A suspended policy that goes on, or another schedule, must not make up for the past.
 */
export function follow({ status, schedule, createdAt, now }: Given): Followed {
  if (status?.observedGeneration === undefined) return { schedule, scheduledSince: earlier(createdAt, now) }
  const { schedule: known, scheduledSince, lastScheduleTime } = status
  const isSame = known === schedule && scheduledSince !== undefined
  if (isSame && !isAhead(scheduledSince, now) && !isAhead(lastScheduleTime, now)) return { schedule, scheduledSince }
  return { schedule, scheduledSince: now.toISOString() }
}

const earlier = (time: string, now: Date): string =>
  new Date(Math.min(Date.parse(time) || now.getTime(), now.getTime())).toISOString()

/** The slot of the last run, unless a clock that was ahead wrote it. */
export const lastSlot = (status: RetentionPolicyStatus | undefined, now: Date): string | undefined =>
  isAhead(status?.lastScheduleTime, now) ? undefined : status?.lastScheduleTime

export interface Due {
  /** The slot whose run may start now. However many were missed, it is the last one. */
  slot?: Date
  /** The end of the window that it starts in. */
  until?: Date
  /** When the next run starts, if none does now. */
  next?: Date
}

/** What the schedule asks for now. */
export function dueOf(schedule: Schedule, window: Window | undefined, since: readonly string[], now: Date): Due {
  const slot = schedule.last(now)
  const after = Math.max(...since.map((time) => Date.parse(time)))
  const start = (at: Date) => (window ? opening(window, at) : at)
  if (slot && slot.getTime() > after) {
    const at = start(now)
    if (at > now) return { next: at }
    return { slot, ...(window && { until: closing(window, now) }) }
  }
  const next = schedule.next(now)
  return next ? { next: start(next) } : {}
}
