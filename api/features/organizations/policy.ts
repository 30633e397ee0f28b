import type { Uuid } from '../../../lib/contract/ids.ts'
import { hasRole, type Role } from '../../../lib/contract/roles.ts'
import { member, organizationAdmin } from '../../permissions/facts.ts'
import { allOf, anyOf, fact, kind, on, onOrganization } from '../../permissions/rule.ts'
import type { State } from '../../permissions/state.ts'

const oneself = fact<{ userId: Uuid }>('oneself', 'the member', (a, row) => a.userId === row.userId)

const notAbove = fact<{ role: Role }>(
  'role_not_above',
  'if the role of the member is not above their own',
  (a, row) => a.role !== null && hasRole({ role: a.role }, row.role),
)

/** Administrators manage members and other administrators. Only owners manage owners, and make a member an owner. */
const mayManage = allOf<{ role: Role }>(organizationAdmin, notAbove)

/** What decides on a membership. */
export const MEMBERSHIP = kind<{ userId: Uuid; role: Role; isLastOwner: boolean }>('membership')

/** Whether a membership is that of the only owner. `owners` counts the owners of the organization. */
export const isLastOwner = ({ role }: { role: Role }, owners: number) => role === 'owner' && owners <= 1

/** Keeps the role and the membership of the last owner: without an owner, no member could manage the organization. */
export const unlessLastOwner: State<{ isLastOwner: boolean }> = ({ isLastOwner }) =>
  isLastOwner
    ? { code: 'CONFLICT', message: 'An organization needs at least one owner; make another member an owner first' }
    : undefined

/** Owners alone: what is kept for longer is theirs to answer for. */
export const organizationOwner = fact('organization_owner', 'owners of the organization', (a) => a.role === 'owner')

export const organizationActions = {
  read: onOrganization('organization.read', 'see the settings of an organization', member),
  update: onOrganization('organization.update', 'change the settings of an organization', organizationOwner),
} as const

export const memberActions = {
  list: onOrganization('member.list', 'list the members of an organization', member),
  // Decided twice: on the member with the present role, and with the new one.
  changeRole: on(MEMBERSHIP, 'member.change_role', 'change the role of a member', mayManage, unlessLastOwner),
  remove: on(
    MEMBERSHIP,
    'member.remove',
    'remove a member, or leave',
    anyOf<{ userId: Uuid; role: Role }>(oneself, mayManage),
    unlessLastOwner,
  ),
} as const

/** A pattern of LIKE that finds the text anywhere, and nothing but the text. */
export const containing = (text: string) => `%${text.replace(/[\\%_]/g, '\\$&')}%`

/** From the first moment of the year (UTC) to the first one after it, as Postgres reads them. */
export const boundsOfYear = (year: number) => ({ from: `${year}-01-01T00:00:00Z`, to: `${year + 1}-01-01T00:00:00Z` })
