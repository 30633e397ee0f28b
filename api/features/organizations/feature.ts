import type { Feature } from '../../feature.ts'
import { findMembership } from '../../permissions/queries.ts'
import { organizationCommands } from './administration.ts'
import type { AboveOrganizations } from './commands.ts'
import { organizationsPart } from './erasure.ts'
import { ownOrganizations } from './own-data.ts'
import { memberActions, organizationActions } from './policy.ts'
import { organizationRoutes } from './routes.ts'

export const organizations = (above: AboveOrganizations): Feature => ({
  ...organizationsPart,
  tags: { Organizations: 'Members and settings of an organization.' },
  routes: (deps) => organizationRoutes(deps, above),
  actions: [...Object.values(organizationActions), ...Object.values(memberActions)],
  export: ownOrganizations,
  commands: organizationCommands,
  // A member is named by the user.
  rows: { membership: { id: 'user', find: (tx, { orgId, id }) => findMembership(tx, orgId, id) } },
})
