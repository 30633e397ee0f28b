import type { Feature } from '../../feature.ts'
import { commentActions } from './comments/policy.ts'
import { findComment } from './comments/queries.ts'
import { commentRoutes } from './comments/routes.ts'
import { discussionsPart } from './erasure.ts'
import { ownDiscussions } from './own-data.ts'
import { reactionActions } from './reactions/policy.ts'
import { findReaction } from './reactions/queries.ts'
import { reactionRoutes } from './reactions/routes.ts'

export const discussions: Feature = {
  ...discussionsPart,
  tags: {
    Comments: 'Comments on events and on what belongs to them, and replies.',
    Reactions: 'Reactions to events and to what belongs to them.',
  },
  routes: (deps) => [...commentRoutes(deps), ...reactionRoutes(deps)],
  actions: [...Object.values(commentActions), ...Object.values(reactionActions)],
  export: ownDiscussions,
  rows: {
    comment: { id: 'comment', find: (tx, { orgId, id, userId }) => findComment(tx, { orgId, id, callerId: userId }) },
    reaction: {
      id: 'reaction',
      find: (tx, { orgId, id, userId }) => findReaction(tx, { orgId, id, callerId: userId }),
    },
  },
}
