import webpush from 'web-push'
import { type Guard, retryAfterSeconds } from '../../../../lib/runtime/guarded-http/guarded-http.ts'
import type { Outcome } from '../channel.ts'
import { isPushHost } from './hosts-policy.ts'
import { type PushMessage, webPushPayload } from './message.ts'
import { hashOfKey } from './vapid-key.ts'

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
  /** Of the key that the browser subscribed with, as `hashOfKey` makes it; null: not known. */
  vapidKey: string | null
}

/** Sends a message to a browser: RFC 8030, encrypted as in RFC 8291, signed as in RFC 8292. */
export function webPusher(guard: Guard, o: { vapidDetails: VapidDetails; hosts: readonly string[] }) {
  const today = hashOfKey(o.vapidDetails.publicKey)
  return async (message: PushMessage, to: Subscription, signal: AbortSignal): Promise<Outcome> => {
    // Registered before the list of services was changed.
    if (!isPushHost(guard.check(to.endpoint).hostname, o.hosts)) return { is: 'refused', reason: 'not a push service' }
    const { endpoint, p256dh, auth, vapidKey } = to
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
    const hasOtherKey = vapidKey !== null && vapidKey !== today
    return outcomeOf(answer.status, retryAfterSeconds(answer.headers), hasOtherKey)
  }
}

/** What the answer of a push service means. Exported for its test. */
export function outcomeOf(status: number, afterSeconds: number | undefined, hasOtherKey: boolean): Outcome {
  const reason = `the push service answered ${status}`
  if (status >= 200 && status < 300) return { is: 'sent' }
  if (status === 404 || status === 410) return { is: 'gone', reason }
  if (status === 429 || status >= 500) {
    return { is: 'later', of: 'destination', reason, ...(afterSeconds !== undefined && { afterSeconds }) }
  }
  if (status === 403 && hasOtherKey) return { is: 'gone', reason: `${reason}: it was registered for another VAPID key` }
  // With the same key, the clock or the configuration of this installation is wrong: no device is dropped.
  if (status === 401 || status === 403) return { is: 'later', isOurs: true, reason }
  // 413 is a mistake of ours; a redirect is not followed.
  return { is: 'refused', reason }
}
