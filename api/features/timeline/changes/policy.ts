import { signedIn } from '../../../permissions/facts.ts'
import { onCaller } from '../../../permissions/rule.ts'

export const changesActions = {
  // Only organizations of which the caller is a member are told of.
  follow: onCaller('feed.follow', 'follow changes of their feed', signedIn),
} as const
