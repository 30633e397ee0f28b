import { type CloudEvent, isEventType } from '../../contract/events.ts'

/**
 * Whether a consumer of these types gets the event. During an upgrade an earlier version has the turn while a later one
 * publishes: what only the latter knows may be meant for the consumer, and is lost if the former acknowledges it unseen.
 */
export const isFor = (types: readonly string[], { type }: Pick<CloudEvent, 'type'>): boolean =>
  types.includes(type) || !isEventType(type)
