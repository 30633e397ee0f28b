import webpush from 'web-push'
import { type Guard, retryAfterSeconds } from '../../../../lib/runtime/guarded-http/guarded-http.ts'
import type { Outcome } from '../channel.ts'
import { isPushHost } from './hosts-policy.ts'
import { type PushMessage, webPushPayload } from './message.ts'

/** The only file that knows web-push, which encrypts and signs; its own request would go wherever an endpoint says. */

export interface VapidDetails {
  subject: string
  publicKey: string
  privateKey: string
}

export interface Subscription {
  endpoint: string
  p256dh: string
  auth: string
}

/** Sends a message to a browser: RFC 8030, encrypted as in RFC 8291, signed as in RFC 8292. */
export function webPusher(guard: Guard, o: { vapidDetails: VapidDetails; hosts: readonly string[] }) {
  return async (message: PushMessage, to: Subscription, signal: AbortSignal): Promise<Outcome> => {
    // Registered before the list of services was changed.
    if (!isPushHost(guard.check(to.endpoint).hostname, o.hosts)) return { is: 'refused', reason: 'not a push service' }
    const { endpoint, p256dh, auth } = to
    const { headers, body } = webpush.generateRequestDetails(
      { endpoint, keys: { p256dh, auth } },
      webPushPayload(message),
      {
        vapidDetails: o.vapidDetails,
        contentEncoding: 'aes128gcm',
        TTL: message.ttl,
        topic: message.topic,
        urgency: 'high',
      },
    )
    const asText = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
    delete asText['Content-Length']
    const answer = await guard.ask(endpoint, { method: 'POST', headers: asText, body, signal })
    return outcomeOf(answer.status, retryAfterSeconds(answer.headers))
  }
}

/** What the answer of a push service means. Exported for its test. */
export function outcomeOf(status: number, afterSeconds: number | undefined): Outcome {
  const reason = `the push service answered ${status}`
  if (status >= 200 && status < 300) return { is: 'sent' }
  if (status === 404 || status === 410) return { is: 'gone', reason }
  if (status === 429 || status >= 500) {
    return { is: 'later', reason, ...(afterSeconds !== undefined && { afterSeconds }) }
  }
  // 413 is a mistake of ours; 401 and 403 mean a subscription of other keys; a redirect is not followed.
  return { is: 'refused', reason }
}
