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

/** Before the one repetition of an attempt that ended without an answer: a server that is slow has answered by then. */
export const REPEAT_SECONDS = 60
/** A receiver that asks for more patience than this is asked again nevertheless. */
const MAX_PATIENCE_SECONDS = 3600

/**
 * At most one message too many: of all attempts, one may end without an answer and be repeated. A temporary failure after
 * it is an answer, so the schedule goes on.
 */
export function nextOf(outcome: Outcome, { attempts, mayHaveArrived, schedule }: Attempt): Next {
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
    case 'unknown':
      return mayHaveArrived
        ? { ...stays, state: 'uncertain', endsPauses: false }
        : { ...stays, state: 'pending', mayHaveArrived: true, afterSeconds: REPEAT_SECONDS, endsPauses: false }
    case 'paused':
      return { ...stays, state: 'pending', attempts: attempts - 1, pausesChannel: true, endsPauses: false }
    case 'later': {
      const scheduled = schedule[attempts - 1]
      const askedSeconds = Math.min(outcome.afterSeconds ?? 0, MAX_PATIENCE_SECONDS)
      const waits = { ...stays, askedSeconds, pauses: outcome.of, endsPauses: outcome.of === undefined }
      if (scheduled === undefined) return { ...waits, state: mayHaveArrived ? 'uncertain' : 'failed' }
      return { ...waits, state: 'pending', afterSeconds: Math.max(scheduled, askedSeconds) }
    }
  }
}

/** How long a channel rests after the n-th failure in a row: half a minute, doubled up to a quarter of an hour. */
export const pauseSeconds = (failures: number): number => Math.min(900, 30 * 2 ** Math.min(failures - 1, 5))

/** The same for a receiver, from five seconds on: it may just have been restarted. */
export const receiverPauseSeconds = (failures: number, asked: number): number =>
  Math.max(asked, Math.min(900, 5 * 2 ** Math.min(failures - 1, 8)))

/** ± 10 %, so that what failed together does not come back together. */
export const jittered = (seconds: number, random: number = Math.random()): number => seconds * (0.9 + 0.2 * random)
