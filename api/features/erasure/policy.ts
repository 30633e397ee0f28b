import { platformAdmin, signedIn } from '../../permissions/facts.ts'
import { onCaller } from '../../permissions/rule.ts'

export const erasureActions = {
  eraseOwn: onCaller('account.erase', 'erase their own account', signedIn),
  // Asked besides, where the request names another user.
  eraseOther: onCaller('account.erase_other', 'erase the account of another user', platformAdmin),
} as const
