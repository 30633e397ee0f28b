import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import { and, eq, getTableColumns, sql } from '../../../db/orm.ts'
import { prepared } from '../../../db/prepared.ts'
import { events } from '../../../db/schema/events.ts'
import { type ReactionRow, reactions } from '../../../db/schema/reactions.ts'
import { type EventFor, isParticipant } from '../../events/queries.ts'
import type { ItemIds } from '../../media/pairing-plan.ts'
import type { Emoji } from '../../reaction-counts/emoji.ts'

type Given = Pick<ReactionRow, 'orgId' | 'eventId' | 'targetType' | 'targetId' | 'userId'>

/** The reaction of a user to a target, after a request. */
export interface Reacted {
  row: Pick<ReactionRow, 'id' | 'orgId' | 'version'>
  /** The same emoji for another audience is a change: the new audience hears of it. */
  change: 'new' | 'other emoji' | 'none'
}

const { placeholder } = sql
const own = and(
  eq(reactions.eventId, placeholder('eventId')),
  eq(reactions.targetType, placeholder('targetType')),
  eq(reactions.targetId, placeholder('targetId')),
  eq(reactions.userId, placeholder('userId')),
)
const versioned = { id: reactions.id, orgId: reactions.orgId, version: reactions.version }

/**
 * Makes the one reaction of the user to the target, or gives it another emoji. It locks the row of this user alone;
 * several requests of one user take turns, and each counts as a change if it is one when its turn comes.
 */
export async function putReaction(
  tx: Tx,
  given: Given & Pick<ReactionRow, 'audience'> & { emoji: Emoji },
): Promise<Reacted> {
  const [changed] = await prepared(tx, 'put_reaction', { ...given, id: newUuid() }, () =>
    tx
      .insert(reactions)
      .values({
        id: placeholder('id'),
        orgId: placeholder('orgId'),
        eventId: placeholder('eventId'),
        targetType: placeholder('targetType'),
        targetId: placeholder('targetId'),
        userId: placeholder('userId'),
        emoji: placeholder('emoji'),
        audience: placeholder('audience'),
      })
      .onConflictDoUpdate({
        target: [reactions.eventId, reactions.targetType, reactions.targetId, reactions.userId],
        set: {
          emoji: sql`excluded.emoji`,
          audience: sql`excluded.audience`,
          version: sql`${reactions.version} + 1`,
          updatedAt: sql`now()`,
        },
        // Without a change the row is only locked.
        setWhere: sql`(${reactions.emoji}, ${reactions.audience}) is distinct from (excluded.emoji, excluded.audience)`,
      })
      .returning({ ...versioned, isNew: sql<boolean>`xmax = 0` }),
  )
  if (changed) return { row: changed, change: changed.isNew ? 'new' : 'other emoji' }
  const [row] = await prepared(tx, 'find_own_reaction', { ...given }, () =>
    tx.select(versioned).from(reactions).where(own),
  )
  if (!row) throw new Error('a reaction was locked and is gone')
  return { row, change: 'none' }
}

/**
 * Moves the reaction of the user from the video of a Live Photo, which it got before the pairing, to the image. If the
 * user has reacted to both, the later reaction stays, with the id of the one to the image. Every change of reactions to a
 * Live Photo begins here, so every transaction locks the row of the video before the row of the image.
 */
export async function gatherReactions(
  tx: Tx,
  { eventId, userId }: Pick<Given, 'eventId' | 'userId'>,
  [image, video]: ItemIds,
): Promise<void> {
  if (video === undefined) return
  // The version stays: nothing is announced.
  await tx.execute(sql`
    with moved as (
      delete from reactions where event_id = ${eventId} and target_type = 'media' and target_id = ${video}
        and user_id = ${userId}
        returning id, org_id, event_id, target_type, user_id, emoji, audience, version, created_at, updated_at
    )
    insert into reactions (id, org_id, event_id, target_type, target_id, user_id, emoji, audience, version, created_at,
        updated_at)
      select id, org_id, event_id, target_type, ${image}, user_id, emoji, audience, version, created_at, updated_at
        from moved
      on conflict (event_id, target_type, target_id, user_id) do update
        set emoji = excluded.emoji, audience = excluded.audience, updated_at = excluded.updated_at
        where (excluded.updated_at, excluded.id) > (reactions.updated_at, reactions.id)`)
}

export type FoundReaction = ReactionRow & Pick<EventFor, 'ownerId' | 'status' | 'isParticipant'>

export async function findReaction(
  tx: Tx,
  { orgId, eventId, id, callerId }: { orgId: Uuid; eventId?: Uuid; id: Uuid; callerId: Uuid },
): Promise<FoundReaction | undefined> {
  const [row] = await tx
    .select({
      ...getTableColumns(reactions),
      ownerId: events.ownerId,
      status: events.status,
      isParticipant: isParticipant(sql`reactions.event_id`, sql`${callerId}`),
    })
    .from(reactions)
    .innerJoin(events, eq(events.id, reactions.eventId))
    .where(
      and(
        eq(reactions.orgId, orgId),
        eq(reactions.id, id),
        eventId === undefined ? undefined : eq(reactions.eventId, eventId),
      ),
    )
  return row
}

/** The reaction of the user to the target. False if another request has removed it first. */
export async function deleteReaction(tx: Tx, { eventId, targetType, targetId, userId }: Given): Promise<boolean> {
  const { rowCount } = await tx
    .delete(reactions)
    .where(
      and(
        eq(reactions.eventId, eventId),
        eq(reactions.targetType, targetType),
        eq(reactions.targetId, targetId),
        eq(reactions.userId, userId),
      ),
    )
  return rowCount === 1
}
