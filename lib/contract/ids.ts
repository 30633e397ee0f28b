import { randomUUID } from 'node:crypto'

/**
 * TypeID (https://github.com/jetify-com/typeid, v0.3): `<prefix>_` and 26 characters of lowercase Crockford base32
 * holding a 128-bit UUID. Lossless both ways, so columns are plain `uuid` and clients see `med_…`.
 */
export const PREFIXES = {
  organization: 'org',
  user: 'usr',
  media: 'med',
  upload: 'upl',
  highlight: 'hlt',
  track: 'trk',
  album: 'alb',
  event: 'evt',
  invitation: 'inv',
  comment: 'cmt',
  reaction: 'rxn',
  audit: 'aud',
  session: 'ses',
  request: 'req',
  message: 'msg',
  timelineItem: 'tli',
  notification: 'ntf',
  webhook: 'whk',
  device: 'dev',
  export: 'exp',
  anonymization: 'gdp',
  hold: 'hld',
} as const

export type IdKind = keyof typeof PREFIXES

/**
 * A lowercase UUID with hyphens, as Postgres prints it: what the program names things by. The fields of these three types
 * do not exist. They keep the two forms, and ids of different kinds, from being taken for each other; text of neither
 * form, such as a column of a query, still is one.
 */
export type Uuid = string & { readonly form?: 'uuid' }
/** The UUID of one kind of thing. */
export type Id<K extends IdKind> = Uuid & { readonly kind?: K }
/** An id as clients and consumers of events see it. */
export type PublicId<K extends IdKind = IdKind> = string & { readonly form?: 'public'; readonly kind?: K }

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'
/** The value of a character, by its code. */
const VALUES = Uint8Array.from({ length: 128 }, (_, code) => Math.max(0, ALPHABET.indexOf(String.fromCharCode(code))))
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** The pattern of an id of this kind on the wire; for JSON Schema. */
export const idPattern = (kind: IdKind) => new RegExp(`^${PREFIXES[kind]}_[0-7][0-9a-hjkmnp-tv-z]{25}$`)

/** What requests may name one by, exactly as `parseId` reads it; for JSON Schema. */
export const givenIdPattern = (kind: IdKind) =>
  new RegExp(`^(?:${PREFIXES[kind]}_[0-7][0-9a-hjkmnp-tv-z]{25}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$`)

/** `formatId('media', '0190…')` → `med_01j…`. */
export function formatId<K extends IdKind>(kind: K, uuid: Id<K>): PublicId<K> {
  return `${PREFIXES[kind]}_${suffixOf(uuid)}`
}

/** The 26 characters after the prefix, for names that may not contain an underscore (Kubernetes). */
export function suffixOf(uuid: Uuid): string {
  // 128 bits are 8 (two characters) and six times 20 (four characters each). Unrolled for speed: a page of media items
  // prints sixty ids.
  return (
    pair((digit(uuid, 0) << 4) | digit(uuid, 1)) +
    fourOf(uuid, 2, 3, 4, 5, 6) +
    fourOf(uuid, 7, 9, 10, 11, 12) +
    fourOf(uuid, 14, 15, 16, 17, 19) +
    fourOf(uuid, 20, 21, 22, 24, 25) +
    fourOf(uuid, 26, 27, 28, 29, 30) +
    fourOf(uuid, 31, 32, 33, 34, 35)
  )
}

/** The four characters for five hexadecimal digits, given by their positions in the UUID, which skip the hyphens. */
function fourOf(uuid: Uuid, a: number, b: number, c: number, d: number, e: number): string {
  const bits =
    (digit(uuid, a) << 16) | (digit(uuid, b) << 12) | (digit(uuid, c) << 8) | (digit(uuid, d) << 4) | digit(uuid, e)
  return pair(bits >> 10) + pair(bits & 1023)
}

const PAIRS = [...ALPHABET].flatMap((high) => [...ALPHABET].map((low) => high + low))
const pair = (tenBits: number) => PAIRS[tenBits] ?? ''

/** The value of a hexadecimal digit, by character code. */
const DIGITS = Uint8Array.from({ length: 128 }, (_, code) => Number.parseInt(String.fromCharCode(code), 16) || 0)
const digit = (uuid: Uuid, place: number) => DIGITS[uuid.charCodeAt(place)] ?? 0

/** Two and three hexadecimal digits by their value. */
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
const HEX3 = Array.from({ length: 4096 }, (_, bits) => bits.toString(16).padStart(3, '0'))

/** The UUID in a 26-character suffix; undefined when the suffix is invalid. */
export function uuidOfSuffix(suffix: string): Uuid | undefined {
  if (!/^[0-7][0-9a-hjkmnp-tv-z]{25}$/.test(suffix)) return undefined
  // In the groups of `suffixOf`; an album is put in order by five thousand ids.
  let hex = HEX[bitsOf(suffix, 0, 2)] ?? ''
  for (let at = 2; at < suffix.length; at += 4) {
    const bits = bitsOf(suffix, at, at + 4)
    hex += (HEX[bits >> 12] ?? '') + (HEX3[bits & 4095] ?? '')
  }
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

function bitsOf(suffix: string, from: number, to: number): number {
  let bits = 0
  for (let at = from; at < to; at++) bits = (bits << 5) | (VALUES[suffix.charCodeAt(at)] ?? 0)
  return bits
}

/** Accepts `med_…` and a bare UUID. Undefined for anything else, which callers answer like an unknown id. */
export function parseId<K extends IdKind>(kind: K, text: string): Id<K> | undefined {
  const prefix = `${PREFIXES[kind]}_`
  if (text.startsWith(prefix)) return uuidOfSuffix(text.slice(prefix.length))
  const lower = text.toLowerCase()
  return UUID.test(lower) ? lower : undefined
}

/** A new UUIDv7 (RFC 9562 §5.7): 48 bits of Unix milliseconds, then randomness. Sorts by creation time. */
export function newUuid(nowMs: number = Date.now()): Uuid {
  const time = nowMs.toString(16).padStart(12, '0')
  // Versions 4 and 7 share the layout after the version digit, and Node generates version 4 in batches.
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}
