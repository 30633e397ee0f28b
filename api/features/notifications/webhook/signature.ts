import { createHmac, randomBytes } from 'node:crypto'

/** Standard Webhooks 1.0 (https://www.standardwebhooks.com): `whsec_` and base64 of the key. */
const PREFIX = 'whsec_'
export const newSecret = (): string => PREFIX + randomBytes(32).toString('base64')

/** The headers of one attempt. `body`: the bytes that are sent. Several secrets sign while one is replaced, the newest first. */
export function signedHeaders(
  secrets: readonly string[],
  { id, body, nowMs = Date.now() }: { id: string; body: string; nowMs?: number },
): Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string> {
  const timestamp = String(Math.floor(nowMs / 1000))
  const sign = (secret: string) =>
    createHmac('sha256', Buffer.from(secret.slice(PREFIX.length), 'base64'))
      .update(`${id}.${timestamp}.${body}`)
      .digest('base64')
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': secrets.map((secret) => `v1,${sign(secret)}`).join(' '),
  }
}
