import type { Feature } from '../../feature.ts'
import { findMembership } from '../../permissions/queries.ts'
import { memberActions } from './policy.ts'
import { organizationRoutes } from './routes.ts'

export const organizations: Feature = {
  tags: { Organizations: 'Members of an organization.' },
  routes: organizationRoutes,
  actions: Object.values(memberActions),
  // A member is named by the user.
  rows: { membership: { id: 'user', find: (tx, { orgId, id }) => findMembership(tx, orgId, id) } },
}
