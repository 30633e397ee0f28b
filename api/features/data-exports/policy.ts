import { signedIn } from '../../permissions/facts.ts'
import { on, onCaller } from '../../permissions/rule.ts'
import { EVENT, mayManageEvent } from '../events/policy.ts'

export const dataExportActions = {
  request: onCaller('data_export.request', 'have a copy of their own data made', signedIn),
  read: onCaller('data_export.read', 'see and download copies of their own data', signedIn),
  remove: onCaller('data_export.remove', 'remove a copy of their own data', signedIn),
} as const

/** An export of an event is the person's alone who asked for it, and outlives the event. */
export const eventExportActions = {
  request: on(EVENT, 'event.export', 'have everything of an event made into archives', mayManageEvent),
  read: onCaller('event_export.read', 'see and download exports of events that they asked for', signedIn),
  remove: onCaller('event_export.remove', 'remove an export of an event that they asked for', signedIn),
} as const
