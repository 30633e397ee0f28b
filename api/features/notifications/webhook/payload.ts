import { formatId } from '../../../../lib/contract/ids.ts'
import type { Rendered } from '../channel.ts'

/**
 * The body of a webhook. The same notification makes the same bytes in every attempt, unless what it says has changed
 * meanwhile: a link that would be dead on arrival is another one.
 */
export function payloadOf(message: Rendered): string {
  const { id, orgId, template, createdAt, language } = message
  const data = {
    notification_id: formatId('notification', id),
    org_id: orgId === null ? null : formatId('organization', orgId),
    recipient: recipientOf(message),
    language,
    ...factsOf(message),
  }
  return JSON.stringify({ type: template, timestamp: createdAt.toISOString(), data })
}

/** As the inviter named them: the receiver reaches them by what it knows of them. */
function recipientOf({ recipient: { userId, email, phoneNumber } }: Rendered) {
  if (userId !== null) return { user_id: formatId('user', userId) }
  return email !== null ? { email } : { phone_number: phoneNumber }
}

function factsOf({ facts, url }: Rendered) {
  // Webhooks are an organization's, and a download is its person's alone.
  if (facts.template === 'DownloadReady.v1') throw new TypeError('no webhook is told of a download')
  const common = { event_id: formatId('event', facts.eventId), title: facts.title }
  if (facts.template === 'EventPurgeSoon.v1') return { ...common, purge_at: facts.purgeAt.toISOString(), url }
  return facts.template === 'Mention.v1'
    ? {
        ...common,
        comment_id: formatId('comment', facts.commentId),
        author_name: facts.authorName,
        excerpt: facts.excerpt,
        url,
      }
    : {
        ...common,
        invitation_id: formatId('invitation', facts.invitationId),
        host_name: facts.hostName,
        inviter_name: facts.inviterName,
        starts_at: facts.startsAt.toISOString(),
        place: facts.place,
        message: facts.message,
        invite_url: url,
      }
}
