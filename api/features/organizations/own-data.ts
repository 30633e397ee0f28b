import * as z from 'zod'
import type { OwnData } from '../../requests/own-data.ts'
import { outputId, outputTime } from '../../requests/schemas.ts'
import { RoleName } from './member.ts'
import { ownMemberships } from './own-data-queries.ts'

export const ownOrganizations: OwnData = {
  sections: [
    {
      name: 'organizations',
      title: 'Groups',
      heading: 'name',
      record: z.strictObject({
        org_id: outputId('organization'),
        name: z.string(),
        role: RoleName,
        joined_at: outputTime(),
      }),
      list: ownMemberships,
    },
  ],
}
