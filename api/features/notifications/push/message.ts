import { formatId } from '../../../../lib/contract/ids.ts'
import type { Rendered } from '../channel.ts'
import type { Facts } from '../templates/template.ts'
import { cut } from '../templates/text.ts'

/** RFC 8291 makes 4,096 bytes of it, the most that push services take. */
export const MAX_PAYLOAD = 3993
const MAX_TITLE = 120
const MAX_BODY = 300
const DAY_SECONDS = 86_400

/** What a push message says, the same for every kind of device. All values are texts, as FCM wants them. */
export interface PushMessage {
  data: Readonly<Record<string, string>>
  title: string
  body: string
  /** A later message with the same one replaces an earlier one: 30 characters of base64url, as RFC 8030 §5.4 wants. */
  topic: string
  /** Seconds that the push service keeps it for a device that is offline. */
  ttl: number
}

/**
 * Ids and a line or two. It holds no token: FCM reads what it passes on, and a signed-in invitee needs none.
 */
export function pushMessageOf(message: Rendered, nowMs: number = Date.now()): PushMessage {
  const { facts, url, short, linkExpiresAt } = message
  const { cause, about } = causeOf(facts)
  return {
    data: {
      type: message.template,
      notification_id: formatId('notification', message.id),
      ...(message.orgId !== null && { org_id: formatId('organization', message.orgId) }),
      ...about,
      url: linkExpiresAt === null ? url : withoutFragment(url),
    },
    title: cut(short.title, MAX_TITLE),
    body: cut(short.body, MAX_BODY),
    topic: cause,
    ttl: ttlOf(facts, nowMs),
  }
}

function causeOf(facts: Facts): { cause: string; about: Record<string, string> } {
  if (facts.template === 'DownloadReady.v1') {
    const export_id = formatId('export', facts.downloadId)
    return { cause: export_id, about: { export_id, kind: facts.kind } }
  }
  const event_id = formatId('event', facts.eventId)
  if (facts.template === 'Mention.v1') {
    const comment_id = formatId('comment', facts.commentId)
    return { cause: comment_id, about: { event_id, comment_id } }
  }
  if (facts.template === 'EventPurgeSoon.v1') {
    return { cause: event_id, about: { event_id, purge_at: facts.purgeAt.toISOString() } }
  }
  const invitation_id = formatId('invitation', facts.invitationId)
  return { cause: invitation_id, about: { event_id, invitation_id } }
}

/**
 * A day, or until the event begins. Not the life of the link: the message has none, and the invitee answers without it. An
 * event that has begun still takes answers.
 */
function ttlOf(facts: Facts, nowMs: number): number {
  if (facts.template !== 'EventInvitation.v1') return DAY_SECONDS
  const untilStart = Math.floor((facts.startsAt.getTime() - nowMs) / 1000)
  return untilStart > 0 ? Math.min(DAY_SECONDS, untilStart) : DAY_SECONDS
}

const withoutFragment = (url: string): string => url.split('#', 1)[0] ?? ''

/** The payload for a browser. The texts are shortened where many signs take several bytes. */
export function webPushPayload({ data, title, body }: PushMessage): string {
  const text = (most: number) => JSON.stringify({ ...data, title: cut(title, most), body: cut(body, most) })
  const fitting = [MAX_BODY, 100, 30, 1].map(text).find((one) => Buffer.byteLength(one) <= MAX_PAYLOAD)
  if (fitting === undefined) throw new RangeError('a push message is too long')
  return fitting
}
