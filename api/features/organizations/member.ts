import * as z from 'zod'
import { ROLES } from '../../../lib/contract/roles.ts'
import { Can } from '../../permissions/can.ts'
import type { Now } from '../../permissions/permit.ts'
import { listOf, outputDate, outputUuid, totalCount } from '../../requests/schemas.ts'
import { MEMBERSHIP } from './policy.ts'
import type { ListedMember } from './queries.ts'

export const RoleName = z.enum(ROLES).meta({ id: 'Role', description: 'Of a member in an organization' })

export const Member = z
  .object({
    user_id: outputUuid(),
    display_name: z.string().nullable(),
    joined_at: outputDate(),
    role: RoleName,
    can: Can,
  })
  .meta({ id: 'Member', description: 'A user as the other members of an organization see them' })
type Member = z.input<typeof Member>

export const toMember = ({ id, displayName, createdAt, role, isLastOwner }: ListedMember, now: Now): Member => ({
  user_id: id,
  display_name: displayName,
  joined_at: createdAt.slice(0, 'YYYY-MM-DD'.length),
  role,
  can: now(MEMBERSHIP, { userId: id, role, isLastOwner }),
})

export const MemberList = listOf('members', Member)
  .extend({
    org_id: outputUuid(),
    org_name: z.string(),
    total_count: totalCount(),
  })
  .meta({ id: 'OrganizationMembers' })
