import type { ReceivedEvent } from '../../../lib/contract/events.ts'
import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import type { Consumer } from '../../worker/consumers/consumer.ts'
import type { ChannelPart } from './channel.ts'
import { insertDeliveries, insertInvited, insertMentioned, insertPurgeSoon } from './queries.ts'

/** Writes down who is to be told of what, and where. Whether it is still to be told is decided when it is sent. */
export function notificationConsumer(parts: readonly ChannelPart[], wake: () => void): Consumer {
  return {
    name: 'notifications',
    types: ['InvitationDue', 'USER_MENTIONED', 'EventPurgeSoon'],
    async handle(tx, events) {
      const invited = await insertInvited(tx, events.flatMap(dueInvitation))
      const mentioned = await insertMentioned(tx, events.flatMap(dueMention))
      const purged = await insertPurgeSoon(tx, events.flatMap(duePurge))
      await address(tx, parts, [...invited, ...mentioned, ...purged])
    },
    committed: wake,
  }
}

async function address(tx: Tx, parts: readonly ChannelPart[], notificationIds: readonly Uuid[]): Promise<void> {
  if (notificationIds.length === 0) return
  for (const part of parts) {
    const addressed = await part.destinationsOf(tx, notificationIds)
    await insertDeliveries(tx, part.name, addressed, part.channel ? undefined : part.offReason)
  }
}

const dueInvitation = (event: ReceivedEvent) =>
  event.type === 'InvitationDue'
    ? [{ invitationId: event.payload.invitation_id, generation: event.payload.generation }]
    : []

const dueMention = (event: ReceivedEvent) =>
  event.type === 'USER_MENTIONED'
    ? [{ commentId: event.payload.comment_id, userId: event.payload.mentioned_user_id }]
    : []

const duePurge = (event: ReceivedEvent) =>
  event.type === 'EventPurgeSoon'
    ? [{ eventId: event.payload.event_id, notice: event.payload.notice, purgeAt: event.payload.purge_at }]
    : []
