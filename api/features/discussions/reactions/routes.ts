import type { ApiDeps } from '../../../deps.ts'
import { inOrganization } from '../../../http/in-organization.ts'
import type { Route } from '../../../http/route.ts'
import { exampleId, pathId, pathWord } from '../../../requests/schemas.ts'
import { isGuest } from '../../events/guests.ts'
import { NO_REACTIONS } from '../../reaction-counts/reaction-counts.ts'
import { OneEvent, TARGET_TYPES } from '../comments/comment.ts'
import { type Destination, react, unreact } from './commands.ts'
import { reactionActions } from './policy.ts'
import { NewReaction, Reaction } from './reaction.ts'

const tags = ['Reactions']
const REACTIONS = '/api/orgs/{org_id}/events/{event_id}/reactions/{action_destination}'

const DESTINATIONS: readonly Destination[] = [...TARGET_TYPES, 'message']
const Where = OneEvent.extend({
  action_destination: pathWord(DESTINATIONS, {
    id: 'ReactionDestination',
    description:
      'What the reaction is to: the event itself (`meta`), a comment, a media item of the event, or a message (there are none)',
  }),
})

/** Reactions to an event and to what belongs to it. */
export function reactionRoutes(deps: ApiDeps): Route[] {
  const { write } = inOrganization(deps)
  return [
    write({
      method: 'post',
      path: REACTIONS,
      operationId: 'react',
      tags,
      summary: 'React to an event, a comment or a media item',
      description:
        'For all who can see what the reaction is to. A user has one reaction to each: another emoji takes the place of the earlier one. Either half of a Live Photo names the Live Photo.',
      problems: ['EVENT_ARCHIVED'],
      limit: 'reaction',
      action: reactionActions.add,
      isGuest,
      params: Where,
      body: NewReaction,
      status: 201,
      alsoStatus: { 200: 'The caller had reacted before, with the same emoji or with another one' },
      response: Reaction,
      examples: {
        request: { action_id: exampleId('event'), emoji: '🎉' },
        response: {
          reaction_id: exampleId('reaction'),
          emoji: '🎉',
          counts: { ...NO_REACTIONS, '🎉': 3, '😂': 1 },
        },
      },
      handle: ({ params, body, ...request }) =>
        react(request, {
          eventId: params.event_id,
          destination: params.action_destination,
          actionId: body.action_id,
          field: 'body.action_id',
          emoji: body.emoji,
        }),
    }),
    write({
      method: 'delete',
      path: `${REACTIONS}/{reaction_id}`,
      operationId: 'removeReaction',
      tags,
      summary: 'Remove one’s own reaction',
      description: 'The reactions of others do not exist here.',
      problems: ['EVENT_ARCHIVED'],
      limit: 'reaction',
      action: reactionActions.remove,
      params: Where.extend({ reaction_id: pathId('reaction') }),
      status: 204,
      handle: ({ params, ...request }) =>
        unreact(request, {
          eventId: params.event_id,
          destination: params.action_destination,
          id: params.reaction_id,
        }),
    }),
  ]
}
