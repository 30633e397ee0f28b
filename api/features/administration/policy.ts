import { platformAdmin } from '../../permissions/facts.ts'
import { onCaller } from '../../permissions/rule.ts'

export const permissionActions = {
  explain: onCaller('permission.explain', 'explain why a user may or may not do something', platformAdmin),
} as const
