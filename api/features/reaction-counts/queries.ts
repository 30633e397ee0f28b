import { type SQL, sql } from '../../db/orm.ts'
import type { TargetType } from '../../db/schema/comments.ts'
import type { Counts, OwnReactionRow } from './reaction-counts.ts'

/** Names or parameters of a query, as it spells them. */
interface Target {
  type: TargetType
  event: SQL
  id: SQL
}

/** A media item: reactions to it have audiences of their own. Everyone who sees an event or a comment sees all. */
interface Item {
  event: SQL
  /** Of the reactions that the caller sees. */
  sees: SQL
  id: SQL
}

/** The halves of a Live Photo. */
interface Pair extends Omit<Item, 'id'> {
  image: SQL
  video: SQL
}

// The type is written out: it is a column's constant, and the same in every plan.
const isTarget = ({ type, event, id }: Target) =>
  sql`r.event_id = ${event} and r.target_type = ${sql.raw(`'${type}'`)} and r.target_id = ${id}`
const isItem = ({ event, sees, id }: Item) =>
  sql`${isTarget({ type: 'media', event, id })} and r.audience = any(${sees}::text[])`

/** Counted from the rows, so that no counter can drift: one range of one index. Null without reactions. */
export const reactionCounts = (target: Target) => countsWhere(isTarget(target))
export const reactionCountsOfItem = (item: Item) => countsWhere(isItem(item))

const countsWhere = (which: SQL) => sql<Partial<Counts> | null>`(select jsonb_object_agg(c.emoji, c.n)
    from (select r.emoji, count(*)::int as n from reactions r where ${which} group by r.emoji) c)`

/**
 * Those of a Live Photo: two ranges, merged in the order of the users. One who reacted to both halves before they were
 * paired counts once, as the later reaction says; only for these the rows themselves are read.
 */
export function reactionCountsOfPair({ image, video, ...of }: Pair) {
  const isHalf = (id: SQL) => isItem({ ...of, id })
  const half = (id: SQL) => sql`(select r.user_id, r.emoji from reactions r where ${isHalf(id)})`
  const later = sql`(select r.emoji from reactions r where ((${isHalf(image)}) or (${isHalf(video)}))
    and r.user_id = i.user_id order by r.updated_at desc, r.id desc limit 1)`
  return sql<Partial<Counts> | null>`(select jsonb_object_agg(c.emoji, c.n) from (
    select case when i.user_id = v.user_id then ${later} else coalesce(i.emoji, v.emoji) end as emoji, count(*)::int as n
      from ${half(image)} i full join ${half(video)} v on v.user_id = i.user_id group by 1) c)`
}

/** The reaction of one user to the target, as JSON. */
export const ownReaction = (target: Target, user: SQL) => ownWhere(isTarget(target), user)
export const ownReactionToItem = (item: Item, user: SQL) => ownWhere(isItem(item), user)

const ownWhere = (which: SQL, user: SQL) => sql<OwnReactionRow>`(select jsonb_build_object('id', r.id,
    'emoji', r.emoji) from reactions r where ${which} and r.user_id = ${user})`

/** Of two reactions from before the pairing, the emoji of the later one with the id of the one to the image. */
export const ownReactionOfPair = ({ image, video, ...of }: Pair, user: SQL) => sql<OwnReactionRow>`(select
    jsonb_build_object('id', (array_agg(r.id order by r.target_id = ${image} desc))[1],
      'emoji', (array_agg(r.emoji order by r.updated_at desc, r.id desc))[1])
    from reactions r where ((${isItem({ ...of, id: image })}) or (${isItem({ ...of, id: video })})) and r.user_id = ${user} having count(*) > 0)`
