import { platformAdmin } from './facts.ts'
import { onCaller } from './rule.ts'

export const permissionActions = {
  explain: onCaller('permission.explain', 'explain why a user may or may not do something', platformAdmin),
} as const
