import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import type { NotificationRow } from '../../db/schema/notifications.ts'
import { excerptOf } from '../discussions/comments/mentions.ts'
import { findComment } from '../discussions/comments/queries.ts'
import { listReaders } from '../discussions/comments/targets.ts'
import { findDownload } from '../downloads/queries.ts'
import { findEvent } from '../events/queries.ts'
import { invitationToSend, type ToSend } from '../invitations/sending.ts'
import { findMedia } from '../media/queries.ts'
import { findEventToPurge, findNameAt, findNotification, findRecipient, followGeneration } from './queries.ts'
import type { DownloadFacts, PurgeSoonFacts } from './templates/template.ts'

type Said =
  | { template: 'EventInvitation.v1'; invitation: ToSend }
  | {
      template: 'Mention.v1'
      commentId: Uuid
      eventId: Uuid
      title: string
      authorName: string | null
      excerpt: string
    }
  | DownloadFacts
  | PurgeSoonFacts

/** What a notification says, as it is at the moment of sending; the link of an invitation is still to be minted. */
export type Gathered = { locale: string | null } & Said

export interface Withheld {
  withheld: string
}

/** What is to be said, or why nothing is any more. `isOut`: a message with the same link may have arrived. */
export async function gather(
  tx: Tx,
  notification: NotificationRow,
  { isOut }: { isOut: boolean },
): Promise<Gathered | Withheld> {
  const { locale } = await findRecipient(tx, notification)
  const facts = await saidBy(tx, notification, isOut)
  return 'withheld' in facts ? facts : { ...facts, locale }
}

function saidBy(tx: Tx, notification: NotificationRow, isOut: boolean): Promise<Said | Withheld> {
  switch (notification.template) {
    case 'EventInvitation.v1':
      return invitation(tx, notification, isOut)
    case 'Mention.v1':
      return mention(tx, notification)
    case 'DownloadReady.v1':
      return download(tx, notification)
    case 'EventPurgeSoon.v1':
      return purgeSoon(tx, notification)
  }
}

async function download(tx: Tx, { downloadId }: NotificationRow): Promise<Said | Withheld> {
  const found = downloadId === null ? undefined : await findDownload(tx, downloadId)
  if (!found) return { withheld: 'the download has ended' }
  const { id, kind, files, bytes, expiresAt } = found
  return { template: 'DownloadReady.v1', downloadId: id, kind, files, bytes, expiresAt }
}

async function purgeSoon(tx: Tx, { eventId, userId, purgeAt }: NotificationRow): Promise<Said | Withheld> {
  if (eventId === null || userId === null || purgeAt === null) throw new Error('a notification without a cause')
  const event = await findEventToPurge(tx, { eventId, userId, purgeAt })
  if (!event) return { withheld: 'the event is not purged at that time any more, or is not the user’s to care for' }
  return { template: 'EventPurgeSoon.v1', eventId, title: event.title, purgeAt }
}

async function invitation(tx: Tx, notification: NotificationRow, isOut: boolean): Promise<Said | Withheld> {
  const { id, orgId, invitationId, generation } = notification
  if (orgId === null || invitationId === null || generation === null) throw new Error('a notification without a cause')
  const found = await invitationToSend(tx, { orgId, id: invitationId, generation, isOut })
  if (!found) {
    // The sender of another channel may have renewed the link after this notification was read.
    const current = await findNotification(tx, id)
    if (current && current.generation !== generation) return invitation(tx, current, isOut)
    return {
      withheld: 'the invitation has another link, cannot be answered any more, or its inviter may not invite any more',
    }
  }
  if (found.generation !== generation) await followGeneration(tx, id, found.generation)
  return { template: 'EventInvitation.v1', invitation: found }
}

/** Asked for this moment: the comment may be deleted, and its reader may have left the organization, or the event as its guest, or lost sight of the album. */
async function mention(tx: Tx, { orgId, eventId, commentId, userId }: NotificationRow): Promise<Said | Withheld> {
  if (orgId === null || eventId === null || commentId === null || userId === null)
    throw new Error('a notification without a cause')
  const comment = await findComment(tx, { orgId, id: commentId, callerId: userId })
  if (!comment || comment.deletedAt !== null || !comment.mentions.includes(userId)) {
    return { withheld: 'the comment is deleted, or mentions the user no longer' }
  }
  if (comment.mediaId !== null && (await findMedia(tx, orgId, comment.mediaId)) === undefined) {
    return { withheld: 'what the comment is about is deleted' }
  }
  const event = await findEvent(tx, orgId, eventId)
  const { audience } = comment
  const readers = event ? await listReaders(tx, { orgId, event, audience, userIds: [userId] }) : []
  if (!event || readers.length === 0) return { withheld: 'the user cannot see the comment' }
  return {
    template: 'Mention.v1',
    commentId,
    eventId,
    title: event.title,
    authorName: await findNameAt(tx, { orgId, eventId, userId: comment.authorId }),
    excerpt: excerptOf(comment.body),
  }
}
