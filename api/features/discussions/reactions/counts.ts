import { type SQL, sql } from 'drizzle-orm'
import type { TargetType } from '../../../db/schema/comments.ts'
import type { Counts, OwnReactionRow } from './reaction.ts'

/** Names or parameters of a query, as it spells them. */
interface Target {
  type: TargetType
  event: SQL
  id: SQL
}

/** The halves of a Live Photo. */
interface Pair {
  event: SQL
  image: SQL
  video: SQL
}

// The type is written out: it is a column's constant, and the same in every plan.
const isTarget = ({ type, event, id }: Target) =>
  sql`r.event_id = ${event} and r.target_type = ${sql.raw(`'${type}'`)} and r.target_id = ${id}`

/** Counted from the rows, so that no counter can drift: one range of one index. Null without reactions. */
export const reactionCounts = (target: Target) => sql<Partial<Counts> | null>`(select jsonb_object_agg(c.emoji, c.n)
    from (select r.emoji, count(*)::int as n from reactions r where ${isTarget(target)} group by r.emoji) c)`

/**
 * Those of a Live Photo: two ranges, merged in the order of the users. One who reacted to both halves before they were
 * paired counts once, as the later reaction says; only for these the rows themselves are read.
 */
export function reactionCountsOfPair({ image, video, event }: Pair) {
  const isHalf = (id: SQL) => isTarget({ type: 'media', event, id })
  const half = (id: SQL) => sql`(select r.user_id, r.emoji from reactions r where ${isHalf(id)})`
  const later = sql`(select r.emoji from reactions r where (${isHalf(image)} or ${isHalf(video)})
    and r.user_id = i.user_id order by r.updated_at desc, r.id desc limit 1)`
  return sql<Partial<Counts> | null>`(select jsonb_object_agg(c.emoji, c.n) from (
    select case when i.user_id = v.user_id then ${later} else coalesce(i.emoji, v.emoji) end as emoji, count(*)::int as n
      from ${half(image)} i full join ${half(video)} v on v.user_id = i.user_id group by 1) c)`
}

/** The reaction of one user to the target, as JSON. */
export const ownReaction = (target: Target, user: SQL) => sql<OwnReactionRow>`(select jsonb_build_object('id', r.id,
    'emoji', r.emoji) from reactions r where ${isTarget(target)} and r.user_id = ${user})`

/** Of two from before the pairing the later one, under the id of that to the image: what the next change leaves. */
export const ownReactionOfPair = ({ image, video, event }: Pair, user: SQL) => sql<OwnReactionRow>`(select
    jsonb_build_object('id', (array_agg(r.id order by r.target_id = ${image} desc))[1],
      'emoji', (array_agg(r.emoji order by r.updated_at desc, r.id desc))[1])
    from reactions r where (${isTarget({ type: 'media', event, id: image })}
      or ${isTarget({ type: 'media', event, id: video })}) and r.user_id = ${user} having count(*) > 0)`
