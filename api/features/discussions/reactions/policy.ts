import type { Uuid } from '../../../../lib/contract/ids.ts'
import { allOf, fact, kind, onForGuests, type Rule } from '../../../permissions/rule.ts'
import { EVENT, mayReadEvent, unlessArchived } from '../../events/policy.ts'

type Given = { userId: Uuid } & (typeof mayReadEvent extends Rule<infer R> ? R : never)

const giver = fact<Given>('reaction_giver', 'the user whose reaction it is', (a, row) => a.userId === row.userId)

/** What decides on a reaction; the owner, the status and the participation are those of its event. */
export const REACTION = kind<Given>('reaction')

export const reactionActions = {
  add: onForGuests(EVENT, 'reaction.add', 'react to an event and to what belongs to it', mayReadEvent, unlessArchived),
  remove: onForGuests(
    REACTION,
    'reaction.remove',
    'remove a reaction',
    allOf<Given>(giver, mayReadEvent),
    unlessArchived,
  ),
} as const
