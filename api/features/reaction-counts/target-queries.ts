import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { prepared } from '../../db/prepared.ts'
import type { Audience, TargetType } from '../../db/schema/comments.ts'
import type { ItemIds } from '../media/pairing-plan.ts'
import {
  ownReaction,
  ownReactionOfPair,
  ownReactionToItem,
  reactionCounts,
  reactionCountsOfItem,
  reactionCountsOfPair,
} from './queries.ts'
import type { Counts, FoundReactions } from './reaction-counts.ts'

const at = (key: string) => sql`${sql.placeholder(key)}`
const of = { event: at('event'), sees: at('sees') }
const user = at('user')
const one = sql`(select 1) one`

/** The two reads of a target, or of a Live Photo with both halves. */
function readsOf({ targetType: type, ids }: ToTarget) {
  if (ids.length > 1) {
    const halves = { ...of, image: at('target'), video: at('video') }
    return { counts: reactionCountsOfPair(halves), own: ownReactionOfPair(halves, user) }
  }
  if (type === 'media') {
    const item = { ...of, id: at('target') }
    return { counts: reactionCountsOfItem(item), own: ownReactionToItem(item, user) }
  }
  const target = { type, event: of.event, id: at('target') }
  return { counts: reactionCounts(target), own: ownReaction(target, user) }
}

/** The target of the reactions, and the audiences of the reactions that the caller sees there. */
interface ToTarget {
  eventId: Uuid
  targetType: TargetType
  ids: ItemIds
  sees: readonly Audience[]
}

const valuesOf = ({ eventId, ids: [target, video], sees }: ToTarget) => ({ event: eventId, target, video, sees })

const kindOf = ({ targetType, ids }: ToTarget) => (ids.length > 1 ? 'pair' : targetType)

/** The number of reactions with each emoji; null without reactions. */
export async function countReactions(tx: Tx, given: ToTarget): Promise<Partial<Counts> | null> {
  const [row] = await prepared(tx, `count_reactions_of_${kindOf(given)}`, valuesOf(given), () =>
    tx.select({ counts: readsOf(given).counts }).from(one),
  )
  return row?.counts ?? null
}

/** The counts, and the reaction of the user. */
export async function findReactions(tx: Tx, given: ToTarget & { userId: Uuid }): Promise<FoundReactions> {
  const name = `find_reactions_to_${kindOf(given)}`
  const values = { ...valuesOf(given), user: given.userId }
  const [row] = await prepared(tx, name, values, () => tx.select(readsOf(given)).from(one))
  return row ?? { counts: null, own: null }
}
