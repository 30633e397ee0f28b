import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { formatId, parseId, type Uuid } from '../../../lib/contract/ids.ts'
import type { Template } from '../../db/schema/notifications.ts'
import type { KeyRing } from '../media/delivery/token.ts'

/** Who gets no more mails of a template: a user, or an address of whomever. */
export interface Unsubscription {
  template: Template
  who: { userId: Uuid } | { addressHash: string }
}

/** What is kept of an address. */
export const hashOfAddress = (address: string) => createHash('sha256').update(address.toLowerCase()).digest('hex')

/** Links in mails that were sent have these numbers for ever. */
const NUMBERS: Record<Template, number> = {
  'EventInvitation.v1': 0,
  'Mention.v1': 1,
  'DownloadReady.v1': 2,
  'EventPurgeSoon.v1': 3,
}
const TEMPLATES = Object.keys(NUMBERS) as Template[]

const TOKEN = /^([a-z0-9]{1,8})\.([0-9]{1,2})\.(usr_[0-9a-z]{26}|[0-9a-f]{64})\.([A-Za-z0-9_-]{22})$/

/**
 * `{kid}.{number of the template}.{user or hash of the address}.{mac}`: works as long as its key is in the ring, and opens
 * nothing else. It never expires, because a mail may be read years later.
 */
export function unsubscribeToken(ring: KeyRing, { template, who }: Unsubscription): string {
  const key = ring.keys[ring.current]
  if (key === undefined) throw new Error('no key to sign links with')
  const content = `${NUMBERS[template]}.${'userId' in who ? formatId('user', who.userId) : who.addressHash}`
  return `${ring.current}.${content}.${mac(key, ring.current, content)}`
}

/** Undefined for any text that this server did not sign. */
export function readUnsubscribeToken(ring: KeyRing, token: string): Unsubscription | undefined {
  const [, kid, number, name, given] = TOKEN.exec(token) ?? []
  if (!kid || !number || !name || !given) return undefined
  const key = Object.hasOwn(ring.keys, kid) ? ring.keys[kid] : undefined
  if (key === undefined) return undefined
  if (!timingSafeEqual(Buffer.from(given), Buffer.from(mac(key, kid, `${number}.${name}`)))) return undefined
  const template = TEMPLATES.find((one) => NUMBERS[one] === Number(number))
  const userId = name.startsWith('usr_') ? parseId('user', name) : undefined
  if (template === undefined || (name.startsWith('usr_') && userId === undefined)) return undefined
  return { template, who: userId === undefined ? { addressHash: name } : { userId } }
}

const mac = (key: string, kid: string, content: string) =>
  createHmac('sha256', Buffer.from(key, 'base64url'))
    .update(`keepsake-unsubscribe\n${kid}\n${content}`)
    .digest()
    .subarray(0, 16)
    .toString('base64url')
