import { platformAdmin } from './facts.ts'
import { onCaller } from './rule.ts'

export const permissionActions = {
  'permission.explain': onCaller('explain why a user may or may not do something', platformAdmin),
} as const
