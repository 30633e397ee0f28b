import type { Uuid } from '../../../lib/contract/ids.ts'
import { hasRole, type Role } from '../../../lib/contract/roles.ts'
import { member, organizationAdmin } from '../../permissions/facts.ts'
import { allOf, anyOf, fact, on, onOrganization } from '../../permissions/rule.ts'

const oneself = fact<{ userId: Uuid }>('oneself', 'the member', (a, row) => a.userId === row.userId)

const notAbove = fact<{ role: Role }>(
  'role_not_above',
  'if the role of the member is not above their own',
  (a, row) => a.role !== null && hasRole({ role: a.role }, row.role),
)

/** Administrators manage members and each other; only owners manage owners, and make them. */
const mayManage = allOf<{ role: Role }>(organizationAdmin, notAbove)

export const memberActions = {
  list: onOrganization('member.list', 'list the members of an organization', member),
  // Decided twice: on the member with the present role, and with the new one.
  changeRole: on('membership', 'member.change_role', 'change the role of a member', mayManage),
  remove: on(
    'membership',
    'member.remove',
    'remove a member, or leave',
    anyOf<{ userId: Uuid; role: Role }>(oneself, mayManage),
  ),
} as const

/**
 * True if the change removes the last owner, without whom no member could manage the organization. `to` is null at the
 * end of a membership.
 */
export const leavesNoOwner = (change: { from: Role; to: Role | null; owners: number }) =>
  change.from === 'owner' && change.to !== 'owner' && change.owners <= 1

/** A pattern of LIKE that finds the text anywhere, and nothing but the text. */
export const containing = (text: string) => `%${text.replace(/[\\%_]/g, '\\$&')}%`

/** From the first moment of the year (UTC) to the first one after it, as Postgres reads them. */
export const boundsOfYear = (year: number) => ({ from: `${year}-01-01T00:00:00Z`, to: `${year + 1}-01-01T00:00:00Z` })
