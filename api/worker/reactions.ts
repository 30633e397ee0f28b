import type { EventType, OutboxMessage } from '../../lib/contract/events.ts'

/** What the worker does after an event, per type. A reaction may run twice for the same event. */
export type Reactions = { [T in EventType]?: (message: OutboxMessage) => Promise<void> }

/** Runs the reactions of all features to an event, one after the other: a retry runs all of them again. */
export function runReactions(features: readonly Reactions[]): (message: OutboxMessage) => Promise<void> {
  return async (message) => {
    for (const reactions of features) await reactions[message.type]?.(message)
  }
}
