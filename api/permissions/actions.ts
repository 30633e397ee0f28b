import { authActions } from '../auth/policy.ts'
import { albumActions } from '../features/albums/policy.ts'
import { commentActions } from '../features/discussions/comments/policy.ts'
import { reactionActions } from '../features/discussions/reactions/policy.ts'
import { eventActions } from '../features/events/policy.ts'
import { highlightActions } from '../features/highlights/policy.ts'
import { invitationActions } from '../features/invitations/policy.ts'
import { mediaActions } from '../features/media/policy.ts'
import { musicTrackActions } from '../features/music-tracks/policy.ts'
import { organizationActions } from '../features/organizations/policy.ts'
import { userActions } from '../features/users/policy.ts'
import { permissionActions } from './policy.ts'
import type { ActionRule } from './rule.ts'

/** All actions of the permission service; a feature adds the actions of its `policy.ts`. */
export const ACTIONS = {
  ...albumActions,
  ...authActions,
  ...commentActions,
  ...eventActions,
  ...highlightActions,
  ...invitationActions,
  ...mediaActions,
  ...musicTrackActions,
  ...organizationActions,
  ...permissionActions,
  ...reactionActions,
  ...userActions,
} as const

export type Action = keyof typeof ACTIONS
/** The fields of a row that the rule of this action needs. */
export type ResourceOf<A extends Action> = (typeof ACTIONS)[A] extends ActionRule<infer R> ? R : never

/** `M`, the caller's membership; undefined for a guest, where the action admits guests. */
export type MemberFor<A extends Action, M> = (typeof ACTIONS)[A] extends { guests: true } ? M | undefined : M

export const isAction = (text: string): text is Action => Object.hasOwn(ACTIONS, text)

/** The rule without the type of its resource, for code that handles all actions. */
export const ruleOf = (action: Action) => ACTIONS[action] as ActionRule<never>
