import type { DeliveryState } from '../../db/schema/notifications.ts'
import type { Outcome } from './channel.ts'

/** An attempt, as the delivery knows it. */
export interface Attempt {
  /** With this one. */
  attempts: number
  /** Whether an attempt before this one ended without an answer. */
  mayHaveArrived: boolean
  /** Seconds before attempt 2, 3, … */
  schedule: readonly number[]
  /** See `Channel.isIdempotent`. */
  isIdempotent: boolean
  /** A purge waits for the message: no temporary failure is the last. */
  isAwaited?: boolean
}

/** What an outcome makes of a delivery. */
export interface Next {
  state: Exclude<DeliveryState, 'sending'>
  attempts: number
  mayHaveArrived: boolean
  /** For `pending`. */
  afterSeconds: number
  reason: string | null
  /** The channel rests: see `pauseSeconds`. */
  pausesChannel: boolean
  /** What receives nothing more for a while: see `receiverPauseSeconds`. */
  pauses: 'destination' | 'service' | undefined
  /** The receiver answered, and not with a request for patience. */
  endsPauses: boolean
  /** Seconds that the receiver asks for; 0 where it says nothing. */
  askedSeconds: number
  /** The destination is dropped. */
  dropsDestination: boolean
}

/** Before the one repetition of an attempt that may not be repeated more often: a slow server has answered by then. */
export const REPEAT_SECONDS = 60
/** Before the next attempt of a message that a purge waits for, where the last one does not count, and so no schedule goes on. */
const UNASKED_SECONDS = 900
/** A receiver that asks for more patience than this is asked again nevertheless. */
const MAX_PATIENCE_SECONDS = 3600

/**
 * At most one message too many that people see: of all attempts through a channel that is not idempotent, one may end
 * without an answer and be repeated. A temporary failure after it is an answer, so the schedule goes on.
 */
export function nextOf(outcome: Outcome, attempt: Attempt): Next {
  const { attempts, mayHaveArrived } = attempt
  const stays = {
    attempts,
    mayHaveArrived,
    afterSeconds: 0,
    reason: 'reason' in outcome ? outcome.reason : null,
    pausesChannel: false,
    pauses: undefined,
    endsPauses: true,
    askedSeconds: 0,
    dropsDestination: false,
  }
  switch (outcome.is) {
    case 'sent':
      return { ...stays, state: 'sent' }
    case 'refused':
      return { ...stays, state: 'failed' }
    case 'gone':
      return { ...stays, state: 'failed', dropsDestination: true }
    case 'unknown': {
      const silent = { ...stays, mayHaveArrived: true, endsPauses: false }
      if (attempt.isIdempotent) return byScheduleOf(attempt, silent)
      return mayHaveArrived
        ? { ...silent, state: 'uncertain' }
        : { ...silent, state: 'pending', afterSeconds: REPEAT_SECONDS }
    }
    case 'paused':
      return { ...stays, state: 'pending', attempts: attempts - 1, pausesChannel: true, endsPauses: false }
    case 'later':
      return nextOfLater(outcome, attempt, stays)
  }
}

function nextOfLater(outcome: Outcome & { is: 'later' }, attempt: Attempt, stays: Omit<Next, 'state'>): Next {
  const askedSeconds = Math.min(outcome.afterSeconds ?? 0, MAX_PATIENCE_SECONDS)
  const unasked = {
    ...stays,
    state: 'pending' as const,
    attempts: attempt.attempts - 1,
    askedSeconds,
    endsPauses: false,
  }
  if (outcome.of !== undefined && outcome.wasSent === false) {
    // What could not be reached rests, up to a quarter of an hour. An outage of hours must not use up the schedule.
    return { ...unasked, pauses: outcome.of, afterSeconds: Math.max(attempt.schedule[0] ?? 0, askedSeconds) }
  }
  // A purge would take an attempt that counts for a refusal by the receiver, which was not asked.
  if (attempt.isAwaited && (outcome.wasSent === false || outcome.isOurs)) {
    return { ...unasked, pauses: outcome.of, afterSeconds: Math.max(UNASKED_SECONDS, askedSeconds) }
  }
  // What was not sent, or not answered, says nothing of the receiver.
  const endsPauses = outcome.of === undefined && outcome.wasSent !== false && outcome.isAnswered !== false
  const next = byScheduleOf(attempt, { ...stays, askedSeconds, pauses: outcome.of, endsPauses })
  const lastStep = attempt.schedule.at(-1)
  if (!attempt.isAwaited || next.state !== 'failed' || lastStep === undefined) return next
  return { ...next, state: 'pending', afterSeconds: Math.max(lastStep, askedSeconds) }
}

/** The next attempt of the schedule, or the end behind its last one. */
function byScheduleOf({ attempts, schedule }: Attempt, waits: Omit<Next, 'state'>): Next {
  const scheduled = schedule[attempts - 1]
  if (scheduled === undefined) return { ...waits, state: waits.mayHaveArrived ? 'uncertain' : 'failed' }
  return { ...waits, state: 'pending', afterSeconds: Math.max(scheduled, waits.askedSeconds) }
}

/** The same for an attempt whose lease has ended, because its worker died. The time of the lease counts. */
export function nextOfLost(attempt: Attempt, leaseSeconds: number): Next {
  const next = nextOf({ is: 'unknown', reason: 'the worker ended during the attempt' }, attempt)
  return { ...next, afterSeconds: Math.max(0, next.afterSeconds - leaseSeconds) }
}

/** How long a channel rests after the n-th failure in a row: half a minute, doubled up to a quarter of an hour. */
export const pauseSeconds = (failures: number): number => Math.min(900, 30 * 2 ** Math.min(failures - 1, 5))

/** The same for a receiver, from five seconds on: it may just have been restarted. */
export const receiverPauseSeconds = (failures: number, asked: number): number =>
  Math.max(asked, Math.min(900, 5 * 2 ** Math.min(failures - 1, 8)))

/** ± 10 %, so that what failed together does not come back together. */
export const jittered = (seconds: number, random: number = Math.random()): number => seconds * (0.9 + 0.2 * random)
