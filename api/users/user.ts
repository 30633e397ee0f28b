import * as z from 'zod'
import { outputId, outputTime } from '../http/schemas.ts'
import { ROLES } from '../organizations/policy.ts'

const RoleName = z.enum(ROLES).meta({ id: 'Role', description: 'Of a member in an organization' })

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
      description: 'Originals, those in the trash included, and the announced size of uploads that are open or merging',
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
  })
  .meta({ id: 'Me' })
export type Me = z.input<typeof Me>
