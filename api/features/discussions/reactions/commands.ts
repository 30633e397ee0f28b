import { formatId, parseId, type Uuid } from '../../../../lib/contract/ids.ts'
import { notFound } from '../../../../lib/contract/problem.ts'
import type { Tx } from '../../../db/db.ts'
import type { TargetType } from '../../../db/schema/comments.ts'
import type { EventRow } from '../../../db/schema/events.ts'
import { found } from '../../../requests/found.ts'
import { lockPermitted } from '../../../requests/lock-permitted.ts'
import { WithStatus, type Write } from '../../../requests/request.ts'
import { findEvent, findEventFor } from '../../events/queries.ts'
import type { ItemIds } from '../../media/pairing-plan.ts'
import type { Emoji } from '../../reaction-counts/emoji.ts'
import { toCounts } from '../../reaction-counts/reaction-counts.ts'
import { countReactions } from '../../reaction-counts/target-queries.ts'
import { formatTarget, kindOf } from '../comments/comment.ts'
import { findItemIds } from '../comments/queries.ts'
import { type FoundTarget, findTarget } from '../comments/targets.ts'
import type { reactionActions } from './policy.ts'
import {
  deleteReaction,
  type FoundReaction,
  findReaction,
  gatherReactions,
  putReaction,
  type Reacted,
} from './queries.ts'

/** Requests may name a message as a target, but no message exists. */
export type Destination = TargetType | 'message'

export interface React {
  eventId: Uuid
  destination: Destination
  /** As the request names it, in `field`. */
  actionId: string
  field: string
  emoji: Emoji
}

/** The same emoji again changes nothing and is not announced. */
export async function react(
  request: Write<typeof reactionActions.add>,
  { eventId, destination, actionId, field, emoji }: React,
) {
  const { tx, orgId, actor, permit, ready } = request
  const event = await lockPermitted(
    (lock) => findEventFor(tx, orgId, eventId, actor.userId, lock ? { lock: 'share' } : {}),
    permit,
  )
  const target = await findReactedTo(request, event, { destination, actionId, field })
  ready(event)
  const { ids: targetIds, audience, sees } = target
  const of = { orgId, eventId, targetType: target.type, targetId: target.id, userId: actor.userId }
  await gatherReactions(tx, of, targetIds)
  const { row, change } = await putReaction(tx, { ...of, audience, emoji })
  // Independent of each other, so that they leave together.
  const [counted] = await Promise.all([
    countReactions(tx, { ...of, ids: targetIds, sees }),
    change !== 'none' && record(request, target, row, { eventId, emoji, change }),
  ])
  const data = { reaction_id: row.id, emoji, counts: toCounts(counted) }
  return change === 'new' ? data : new WithStatus(200, data)
}

const record = (
  { orgId, actor, announce, audit }: Write<typeof reactionActions.add>,
  target: FoundTarget,
  row: Reacted['row'],
  { eventId, emoji, change }: { eventId: Uuid; emoji: Emoji; change: string },
) =>
  Promise.all([
    announce('reaction_added', row, {
      reaction_id: row.id,
      event_id: eventId,
      target_type: target.type,
      target_id: formatTarget(target),
      audience: target.audience,
      org_id: orgId,
      user_id: actor.userId,
      emoji,
    }),
    audit('REACTION_CREATE', row, { event_id: formatId('event', eventId), operation: change }),
  ])

async function findReactedTo(
  request: Write<typeof reactionActions.add>,
  event: EventRow,
  { destination: type, actionId, field }: Pick<React, 'destination' | 'actionId' | 'field'>,
): Promise<FoundTarget> {
  const id = type === 'message' ? undefined : parseId(kindOf(type), actionId)
  const named = type === 'message' || id === undefined ? undefined : { type, id }
  const target = named && (await findTarget(request, event, named, { field }))
  if (target && !target.comment?.deletedAt) return target
  throw notFound(field)
}

/** A caller may also remove a reaction to a target that the caller no longer reaches. */
export async function unreact(
  { tx, orgId, actor, permit, ready, audit }: Write<typeof reactionActions.remove>,
  { eventId, destination, id }: { eventId: Uuid; destination: Destination; id: Uuid },
): Promise<void> {
  // The lock is that of the event.
  const find = async (lock: boolean) => {
    if (lock) found(await findEvent(tx, orgId, eventId, { lock: 'share' }))
    const reaction = await findReaction(tx, { orgId, eventId, id, callerId: actor.userId })
    return reaction?.targetType === destination ? reaction : undefined
  }
  const reaction = await lockPermitted(find, permit)
  ready(reaction)
  const ids = await idsOf(tx, reaction)
  await gatherReactions(tx, reaction, ids)
  if (!(await deleteReaction(tx, { ...reaction, targetId: ids[0] }))) throw notFound()
  await audit('REACTION_DELETE', reaction, { event_id: formatId('event', eventId) })
}

const idsOf = (tx: Tx, { orgId, targetType, targetId }: FoundReaction): Promise<ItemIds> | ItemIds =>
  targetType === 'media' ? findItemIds(tx, orgId, targetId) : [targetId]
