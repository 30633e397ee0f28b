import * as z from 'zod'
import { outputUuid } from '../../requests/schemas.ts'
import { MAX_EVENT_RETENTION_YEARS } from './retention-plan.ts'

const Years = z.int().min(1).max(MAX_EVENT_RETENTION_YEARS)

export const Organization = z
  .object({
    org_id: outputUuid(),
    name: z.string(),
    event_retention_years: Years.nullable().meta({
      description:
        'How long the organization keeps archived events, where that is longer than the installation does. Null: as long as the installation',
    }),
  })
  .meta({ id: 'Organization' })

export const UpdateOrganization = z.object({
  event_retention_years: Years.nullable().meta({
    description: 'Longer than the installation keeps archived events, or null',
    example: 20,
  }),
})
