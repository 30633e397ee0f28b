import type { Uuid } from '../../lib/contract/ids.ts'
import { hasRole } from '../../lib/contract/roles.ts'
import { fact } from './rule.ts'

/** Facts that several features use. A fact of one feature belongs in its `policy.ts`. */
export const signedIn = fact('signed_in', 'signed-in users', () => true)

export const platformAdmin = fact('platform_admin', 'platform administrators (`ROLE_ADMIN`)', (a) => a.platformAdmin)

export const member = fact('member', 'members of the organization', (a) => a.role !== null)

export const organizationAdmin = fact(
  'organization_admin',
  'owners and administrators of the organization',
  (a) => a.role !== null && hasRole({ role: a.role }, 'admin'),
)

export const uploader = fact<{ uploaderId: Uuid }>('uploader', 'the uploader', (a, row) => a.userId === row.uploaderId)
