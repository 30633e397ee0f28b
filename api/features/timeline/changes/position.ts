import { createHmac, createSecretKey, hash, timingSafeEqual } from 'node:crypto'
import type { Uuid } from '../../../../lib/contract/ids.ts'

/** The versions of the feeds of a user's organizations. An organization without changes has 0. */
export type Versions = ReadonlyMap<Uuid, number>

/** Ids of events: how far a client is. Opaque, and signed so that no client depends on the content. */
export interface Positions {
  encode(versions: Versions): string
  /** What a client that had this position has missed: organizations, or everything (`reset`). */
  missedSince(position: string, now: Versions): Uuid[] | 'reset'
}

const LIFETIME_SECONDS = 24 * 3600
const MAC_BYTES = 8
/** Of an organization; the last bytes of a UUID of version 7 are random. */
const KEY_BYTES = 6
const HEAD_BYTES = 5
/** A request has room for 16 KiB of headers. Beyond some 450 organizations a position only says whether it is current. */
const MAX_ENTRY_BYTES = 4096
const MAX_POSITION = 8192
const ENTRIES = 1
const DIGEST = 2

/** `now` in Unix seconds. A position is one byte of format, the time, the entries or their digest, and the MAC. */
export function positions(secret: string, now: () => number): Positions {
  const key = createSecretKey(createHmac('sha256', secret).update('keepsake-feed-position').digest())
  const mac = (body: Buffer) => createHmac('sha256', key).update(body).digest().subarray(0, MAC_BYTES)

  function open(position: string): Buffer | undefined {
    const bytes = Buffer.from(position.slice(0, MAX_POSITION), 'base64url')
    if (bytes.length < HEAD_BYTES + MAC_BYTES) return undefined
    const body = bytes.subarray(0, -MAC_BYTES)
    return timingSafeEqual(mac(body), bytes.subarray(-MAC_BYTES)) ? body : undefined
  }

  return {
    encode(versions) {
      const entries = entriesOf(versions)
      const isLong = entries.length > MAX_ENTRY_BYTES
      const head = Buffer.alloc(HEAD_BYTES)
      head.writeUInt8(isLong ? DIGEST : ENTRIES)
      head.writeUInt32BE(Math.floor(now()), 1)
      const body = Buffer.concat([head, isLong ? digestOf(entries) : entries])
      return Buffer.concat([body, mac(body)]).toString('base64url')
    },
    missedSince(position, versions) {
      const body = open(position)
      if (!body || now() - body.readUInt32BE(1) > LIFETIME_SECONDS) return 'reset'
      const content = body.subarray(HEAD_BYTES)
      if (body[0] === DIGEST) return content.equals(digestOf(entriesOf(versions))) ? [] : 'reset'
      return differing(readEntries(content), versions)
    },
  }
}

/** An organization that the client had is gone, or a version went back (a restored backup): then all is to be read anew. */
function differing(before: Map<string, number>, now: Versions): Uuid[] | 'reset' {
  const keys = new Set([...now.keys()].map(keyOf))
  if ([...before.keys()].some((key) => !keys.has(key))) return 'reset'
  const changed = [...now].filter(([org, n]) => before.get(keyOf(org)) !== n)
  return changed.some(([org, n]) => n < (before.get(keyOf(org)) ?? 0)) ? 'reset' : changed.map(([org]) => org)
}

const keyOf = (org: Uuid) => org.slice(-2 * KEY_BYTES)
const digestOf = (entries: Buffer) => hash('sha256', entries, 'buffer').subarray(0, 16)

/** Of each organization its key and its version, as a variable number of groups of seven bits, lowest first. */
function entriesOf(versions: Versions): Buffer {
  const bytes: number[] = []
  for (const [org, version] of [...versions].sort(([a], [b]) => (a < b ? -1 : 1))) {
    bytes.push(...Buffer.from(keyOf(org), 'hex'))
    let n = version
    for (; n > 127; n = Math.floor(n / 128)) bytes.push((n % 128) + 128)
    bytes.push(n)
  }
  return Buffer.from(bytes)
}

function readEntries(bytes: Buffer): Map<string, number> {
  const versions = new Map<string, number>()
  for (let at = 0; at < bytes.length; ) {
    const key = bytes.subarray(at, at + KEY_BYTES).toString('hex')
    at += KEY_BYTES
    let n = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++] ?? 0
      n += (byte % 128) * factor
      if (byte < 128) break
    }
    versions.set(key, n)
  }
  return versions
}
