import type { Uuid } from '../../lib/contract/ids.ts'

/**
 * Why the server ended a stream. `age`: after a quarter of an hour. `expired`, `revoked`: the token. `unverified`: the
 * token could not be checked again. `access`: what the user may see became less. `replaced`: by a newer stream of the
 * same device, or of a user with too many. `drain`: the server stops. `slow`: the client did not read.
 */
export type StreamEnd = 'age' | 'expired' | 'revoked' | 'unverified' | 'access' | 'replaced' | 'drain' | 'slow'

/** One open answer of server-sent events (HTML Living Standard §9.2). */
export interface EventStream {
  readonly userId: Uuid
  /** Sends whole events. Does nothing after the end. A client that does not read is cut off. */
  send(events: string): void
  end(why: StreamEnd): void
  readonly isOpen: boolean
  onClose(then: () => void): void
  /** Called when what the user may see may have changed, after the token was found to be still valid. */
  onAccess(then: () => void): void
}

/** What a handler found out before the head of the answer is sent. */
export interface Opening {
  /** The name that the client's device gave itself: it has one stream at a time. */
  device?: string | undefined
  /** The first events, which leave with the head, and what happens afterwards. */
  begin(stream: EventStream): void
}

/** A whole number of milliseconds, at random between the two. */
export const spread = (from: number, to: number) => Math.round(from + Math.random() * (to - from))
/** The field that says when a client comes back. */
export const retryOf = (from: number, to: number) => `retry: ${spread(from, to)}\n`
