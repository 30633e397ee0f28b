import type { Feature } from '../../feature.ts'
import type { AboveEvents } from './commands.ts'
import { eventsPart } from './erasure.ts'
import { ownEventData } from './own-data.ts'
import { eventActions } from './policy.ts'
import { findEventFor } from './queries.ts'
import { eventRoutes } from './routes.ts'

export const events = (above: AboveEvents): Feature => ({
  ...eventsPart,
  tags: { Events: 'Events of an organization, and the users who take part in them.' },
  routes: (deps) => eventRoutes(deps, above),
  actions: Object.values(eventActions),
  export: ownEventData,
  rows: { event: { id: 'event', find: (tx, { orgId, id, userId }) => findEventFor(tx, orgId, id, userId) } },
})
