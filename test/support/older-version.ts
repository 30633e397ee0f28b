import { EVENTS, type EventType } from '../../lib/contract/events.ts'

type Known = Record<string, (typeof EVENTS)[EventType]>

/** Has this process be of a version that does not know the type, or knows it as `instead`, until the result is called. */
export function asOlderVersion(type: EventType, instead?: Known[string]): () => void {
  const known: Known = EVENTS
  const { [type]: now } = known
  if (!now) throw new Error(`${type} is not known as it is`)
  delete known[type]
  if (instead) known[type] = instead
  return () => {
    known[type] = now
  }
}
