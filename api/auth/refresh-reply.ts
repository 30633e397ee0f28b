import { createCipheriv, createDecipheriv, hash, hkdfSync, randomBytes } from 'node:crypto'

/** What the database knows a refresh token by. */
export const hashOfToken = (token: string): Buffer => hash('sha256', token, 'buffer')

const VERSION = 1
const IV_BYTES = 12
const TAG_BYTES = 16

/** The database has no more of the token than its hash, so only a client that still has the token can read the answer. */
const keyOf = (token: string) => Buffer.from(hkdfSync('sha256', token, '', 'keepsake refresh reply 1', 32))

export function sealReply(token: string, reply: unknown): Buffer {
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv('aes-256-gcm', keyOf(token), iv)
  const sealed = Buffer.concat([cipher.update(JSON.stringify(reply)), cipher.final()])
  return Buffer.concat([Buffer.from([VERSION]), iv, cipher.getAuthTag(), sealed])
}

/** Throws for an answer to another token. */
export function openReply(token: string, sealed: Buffer): unknown {
  if (sealed[0] !== VERSION) throw new Error('the stored answer has an unknown version')
  const iv = sealed.subarray(1, 1 + IV_BYTES)
  const tag = sealed.subarray(1 + IV_BYTES, 1 + IV_BYTES + TAG_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', keyOf(token), iv, { authTagLength: TAG_BYTES }).setAuthTag(tag)
  const text = Buffer.concat([decipher.update(sealed.subarray(1 + IV_BYTES + TAG_BYTES)), decipher.final()])
  return JSON.parse(text.toString())
}
