import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

/** Standard Webhooks 1.0 (https://www.standardwebhooks.com): `whsec_` and base64 of the key. */
const PREFIX = 'whsec_'
export const newSecret = (): string => PREFIX + randomBytes(32).toString('base64')

/** The headers of one attempt. `body`: the bytes that are sent. Several secrets sign while one is replaced, the newest first. */
export function signedHeaders(
  secrets: readonly string[],
  { id, body, nowMs = Date.now() }: { id: string; body: string; nowMs?: number },
): Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string> {
  const timestamp = String(Math.floor(nowMs / 1000))
  const sign = (secret: string) => macOf(secret, `${id}.${timestamp}.${body}`).toString('base64')
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': secrets.map((secret) => `v1,${sign(secret)}`).join(' '),
  }
}

const macOf = (secret: string, text: string): Buffer =>
  createHmac('sha256', Buffer.from(secret.slice(PREFIX.length), 'base64'))
    .update(text)
    .digest()

const TOLERANCE_SECONDS = 300

/** The id of a message that was signed with one of these secrets within five minutes; undefined for any other. */
export function verifiedId(
  secrets: readonly string[],
  headers: Readonly<Record<string, string | string[] | undefined>>,
  { body, nowMs }: { body: string; nowMs: number },
): string | undefined {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signature } = headers
  if (typeof id !== 'string' || typeof timestamp !== 'string' || typeof signature !== 'string') return undefined
  if (!/^[\w.:/+=-]{1,200}$/.test(id) || !/^\d{1,12}$/.test(timestamp)) return undefined
  if (Math.abs(nowMs / 1000 - Number(timestamp)) > TOLERANCE_SECONDS) return undefined
  const given = signature
    .split(' ')
    .flatMap((one) => (one.startsWith('v1,') ? Buffer.from(one.slice(3), 'base64') : []))
  const isSigned = secrets.some((secret) => {
    const mac = macOf(secret, `${id}.${timestamp}.${body}`)
    return given.some((one) => one.length === mac.length && timingSafeEqual(one, mac))
  })
  return isSigned ? id : undefined
}
