import type { Feature } from '../../feature.ts'
import { invitationsPart } from './erasure.ts'
import { landingRoutes } from './landing/routes.ts'
import { ownInvitations } from './own-data.ts'
import { invitationActions } from './policy.ts'
import { findInvitation } from './queries.ts'
import { invitationRoutes } from './routes.ts'

export const invitations: Feature = {
  ...invitationsPart,
  tags: { Invitations: 'People are invited to events, and respond.' },
  routes: (deps) => [...invitationRoutes(deps), ...landingRoutes(deps)],
  actions: Object.values(invitationActions),
  export: ownInvitations,
  rows: {
    invitation: {
      id: 'invitation',
      // A token is presented with a request only.
      find: async (tx, { orgId, id, userId }) => {
        const row = await findInvitation(tx, { orgId, id, userId })
        return row && { ...row, isPresented: false }
      },
    },
  },
}
