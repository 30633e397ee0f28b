import { signedIn } from '../permissions/facts.ts'
import { onCaller } from '../permissions/rule.ts'

export const authActions = {
  'session.end_all': onCaller('sign out on all devices', signedIn),
} as const
