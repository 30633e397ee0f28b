import { randomBytes } from 'node:crypto'

/**
 * TypeID (https://github.com/jetify-com/typeid, v0.3): `<prefix>_` and 26 characters of lowercase Crockford base32
 * holding a 128-bit UUID. Lossless both ways, so columns are plain `uuid` and clients see `med_…`.
 */
export const PREFIXES = {
  organization: 'org',
  user: 'usr',
  media: 'med',
  upload: 'upl',
  audit: 'aud',
  session: 'ses',
  request: 'req',
  message: 'msg',
} as const

export type IdKind = keyof typeof PREFIXES

/** A lowercase UUID with hyphens, as Postgres prints it. */
export type Uuid = string

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'
const VALUE = new Map([...ALPHABET].map((c, i) => [c, BigInt(i)]))
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** What an id of this kind looks like on the wire; for JSON Schema. */
export const idPattern = (kind: IdKind) => new RegExp(`^${PREFIXES[kind]}_[0-7][0-9a-hjkmnp-tv-z]{25}$`)

/** `formatId('media', '0190…')` → `med_01j…`. */
export function formatId(kind: IdKind, uuid: Uuid): string {
  return `${PREFIXES[kind]}_${suffixOf(uuid)}`
}

/** The 26 characters after the prefix: for names that may not hold an underscore (Kubernetes). */
export function suffixOf(uuid: Uuid): string {
  const hex = uuid.replaceAll('-', '')
  // 128 bits are 8 and six times 20, four digits each: a page of media prints sixty ids, so they come from a table.
  let out = pair(Number.parseInt(hex.slice(0, 2), 16))
  for (let i = 2; i < 32; i += 5) {
    const n = Number.parseInt(hex.slice(i, i + 5), 16)
    out += pair(n >> 10) + pair(n & 1023)
  }
  return out
}

const PAIRS = [...ALPHABET].flatMap((high) => [...ALPHABET].map((low) => high + low))
const pair = (tenBits: number) => PAIRS[tenBits] ?? ''

/** The UUID in a 26 character suffix, or undefined if it is none. */
export function uuidOfSuffix(suffix: string): Uuid | undefined {
  if (!/^[0-7][0-9a-hjkmnp-tv-z]{25}$/.test(suffix)) return undefined
  let n = 0n
  for (const c of suffix) n = (n << 5n) | (VALUE.get(c) ?? 0n)
  const hex = n.toString(16).padStart(32, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

/** Accepts `med_…` and, as decided, a bare UUID. Anything else is undefined: no such thing exists. */
export function parseId(kind: IdKind, text: string): Uuid | undefined {
  const prefix = `${PREFIXES[kind]}_`
  if (text.startsWith(prefix)) return uuidOfSuffix(text.slice(prefix.length))
  const lower = text.toLowerCase()
  return UUID.test(lower) ? lower : undefined
}

/** A fresh UUIDv7 (RFC 9562 §5.7): 48 bits of Unix milliseconds, then randomness. Sorts by time of making. */
export function newUuid(nowMs: number = Date.now()): Uuid {
  const b = randomBytes(16)
  b.writeUIntBE(nowMs, 0, 6)
  b[6] = 0x70 | ((b[6] ?? 0) & 0x0f)
  b[8] = 0x80 | ((b[8] ?? 0) & 0x3f)
  const hex = b.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
