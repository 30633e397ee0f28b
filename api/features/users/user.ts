import * as z from 'zod'
import { listOf, outputId, outputTime, outputUuid, totalCount } from '../../requests/schemas.ts'
import { RoleName } from '../organizations/member.ts'

/** An organization as one of its members sees it in their own account. */
export const OwnOrganization = z
  .object({
    org_id: outputId('organization'),
    name: z.string(),
    role: RoleName,
    joined_at: outputTime(),
  })
  .meta({ id: 'OwnOrganization' })

/** Up to a pebibyte: far above what one person stores, and far below what a double cannot count. */
const Bytes = z
  .int()
  .min(0)
  .max(2 ** 50)

/** What one user stores, in all organizations together. */
export const UserStorage = z
  .object({
    used_bytes: Bytes.meta({
      description:
        'Originals, those in the trash included, and the announced size of uploads that are open or merging, in the organizations of which the user is a member',
    }),
    quota_bytes: Bytes.meta({ description: 'The API refuses an upload that exceeds it with QUOTA_EXCEEDED' }),
  })
  .meta({ id: 'UserStorage' })

/** The caller's own account. */
export const Me = z
  .object({
    user_id: outputId('user'),
    display_name: z.string().nullable(),
    email: z.string().nullable(),
    organizations: z.array(OwnOrganization).meta({ description: 'In the order in which the caller joined them' }),
    storage: UserStorage,
    platform_admin: z.boolean().meta({ description: 'Whether the token has the role `ROLE_ADMIN`' }),
  })
  .meta({ id: 'Me' })
export type Me = z.input<typeof Me>

const SharedOrganization = z
  .object({ org_id: outputUuid(), org_name: z.string() })
  .meta({ id: 'SharedOrganization', description: 'An organization that has both users as members' })

/** Another user, as the caller is connected with them: through common organizations, and nothing else. */
export const Connection = z
  .object({
    user_id: outputUuid(),
    display_name: z.string().nullable(),
    connected_via: z
      .array(SharedOrganization)
      .meta({ description: 'Shared with the caller, in the order in which the caller joined them' }),
  })
  .meta({ id: 'Connection' })
export type Connection = z.input<typeof Connection>

export const ConnectedMembers = listOf('members', Connection)
  .extend({ total_count: totalCount() })
  .meta({ id: 'ConnectedMembers' })
export type ConnectedMembers = z.input<typeof ConnectedMembers>
