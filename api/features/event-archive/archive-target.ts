import { formatId } from '../../../lib/contract/ids.ts'
import type { RetentionTarget } from '../../retention/target.ts'
import { coolEvent } from './cold.ts'
import { purgeEvent } from './purge.ts'
import {
  claimEvents,
  countAdmittedEvents,
  countDueEvents,
  countEvents,
  type DueEvent,
  EVENT_LEASES,
  listDueEvents,
} from './queries.ts'

/** Archived events, as policies move them to the cold tier and purge them. */
export const eventArchive: RetentionTarget<DueEvent> = {
  name: 'EventArchive',
  leases: EVENT_LEASES,
  few: 10,
  total: countEvents,
  countDue: countDueEvents,
  countAdmitted: countAdmittedEvents,
  claim: claimEvents,
  about: ({ id }) => ({ rows: [id], id: formatId('event', id) }),
  handle: (deps, event, lease) =>
    event.action === 'purge' ? purgeEvent(deps, event, lease) : coolEvent(deps, event, lease),
  async list(tx, due, o) {
    const { lines, last } = await listDueEvents(tx, due, o)
    return { lines: lines.map((line) => ({ ...line, id: formatId('event', line.id) })), last }
  },
}
