import * as z from 'zod'
import { REASONS } from '../../permissions/rule.ts'
import { bodyId, text } from '../../requests/schemas.ts'

export const ExplainPermission = z.object({
  user_id: bodyId('user'),
  org_id: bodyId('organization'),
  action: text(1, 100).meta({ description: 'An action of docs/permissions.md', example: 'media.read_location' }),
  resource_id: text(1, 100)
    .nullish()
    .meta({ description: 'The resource of the action, unless it applies to the caller or the organization' }),
})
export type ExplainPermission = z.output<typeof ExplainPermission>

export const PermissionReason = z
  .enum(REASONS)
  .meta({ id: 'PermissionReason', description: 'no_such_resource: the organization has no such resource' })

const PermissionFact = z.union([z.string(), z.boolean(), z.null()]).meta({ id: 'PermissionFact' })

export const PermissionExplanation = z
  .object({
    allowed: z.boolean(),
    reason: PermissionReason,
    rule: z.string().meta({ description: 'The callers for whom the action is allowed, as text' }),
    facts: z
      .record(z.string(), PermissionFact)
      .meta({ description: 'The input of the decision: `role` in the organization, and each fact of the rule' }),
  })
  .meta({ id: 'PermissionExplanation' })
export type PermissionExplanation = z.input<typeof PermissionExplanation>
