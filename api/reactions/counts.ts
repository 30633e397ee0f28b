import { type SQL, sql } from 'drizzle-orm'
import type { TargetType } from '../db/schema/comments.ts'
import type { Counts, OwnReactionRow } from './reaction.ts'

/** Names or parameters of a query, as it spells them. */
interface Target {
  type: TargetType
  event: SQL
  id: SQL
}

// The type is written out: it is a column's constant, and the same in every plan.
const isTarget = ({ type, event, id }: Target) =>
  sql`r.event_id = ${event} and r.target_type = ${sql.raw(`'${type}'`)} and r.target_id = ${id}`

/** Counted from the rows, so that no counter can drift: one range of one index. Null without reactions. */
export const reactionCounts = (target: Target) => sql<Partial<Counts> | null>`(select jsonb_object_agg(c.emoji, c.n)
    from (select r.emoji, count(*)::int as n from reactions r where ${isTarget(target)} group by r.emoji) c)`

/** The reaction of one user to the target, as JSON. */
export const ownReaction = (target: Target, user: SQL) => sql<OwnReactionRow>`(select jsonb_build_object('id', r.id,
    'emoji', r.emoji) from reactions r where ${isTarget(target)} and r.user_id = ${user})`
