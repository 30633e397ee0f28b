import { createCipheriv, createDecipheriv } from 'node:crypto'
import * as z from 'zod'

/** base64url of 32 bytes, as `openssl rand -base64 32 | tr +/ -_` prints it. */
const secret = z.string().regex(/^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]=?$/, 'must be base64url of 32 bytes')

/** The master keys of personal data: `current` wraps, all unwrap, so a rotation makes nothing unreadable. */
export const AuditKeys = z
  .object({ current: z.string(), keys: z.record(z.string().regex(/^[a-z0-9]{1,8}$/), secret) })
  .refine((ring) => ring.keys[ring.current] !== undefined, 'current must name one of the keys')
export type AuditKeys = z.output<typeof AuditKeys>

export interface Wrapped {
  masterId: string
  wrapped: Buffer
}

/** Wraps the keys of persons. Asynchronous, so that a key management service can stand here. */
export interface MasterKeys {
  /** Which key `wrap` uses. */
  readonly current: string
  wrap(key: Buffer): Promise<Wrapped>
  /** Throws for an unknown master key, and for a wrapped key that it did not wrap. */
  unwrap(wrapped: Wrapped): Promise<Buffer>
}

/** RFC 3394: 40 bytes for 32, without a nonce that could be used twice. */
const ALGORITHM = 'id-aes256-wrap'
const IV = Buffer.alloc(8, 0xa6)

export function openMasterKeys({ current, keys }: AuditKeys): MasterKeys {
  const keyOf = (masterId: string): Buffer => {
    const key = Object.hasOwn(keys, masterId) ? keys[masterId] : undefined
    if (key === undefined) throw new Error(`AUDIT_KEYS has no key ${masterId}, which personal data needs`)
    return Buffer.from(key, 'base64url')
  }
  return {
    current,
    async wrap(key) {
      const cipher = createCipheriv(ALGORITHM, keyOf(current), IV)
      return { masterId: current, wrapped: Buffer.concat([cipher.update(key), cipher.final()]) }
    },
    async unwrap({ masterId, wrapped }) {
      const decipher = createDecipheriv(ALGORITHM, keyOf(masterId), IV)
      return Buffer.concat([decipher.update(wrapped), decipher.final()])
    },
  }
}
