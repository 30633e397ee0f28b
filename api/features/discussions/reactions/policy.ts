import type { Uuid } from '../../../../lib/contract/ids.ts'
import { allOf, fact, on, type Rule } from '../../../permissions/rule.ts'
import { mayReadEvent } from '../../events/policy.ts'

type Given = { userId: Uuid } & (typeof mayReadEvent extends Rule<infer R> ? R : never)

const giver = fact<Given>('reaction_giver', 'the user whose reaction it is', (a, row) => a.userId === row.userId)

export const reactionActions = {
  add: on('event', 'reaction.add', 'react to an event and to what belongs to it', mayReadEvent),
  remove: on('reaction', 'reaction.remove', 'remove a reaction', allOf<Given>(giver, mayReadEvent)),
} as const
