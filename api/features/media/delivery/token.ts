import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Uuid } from '../../../../lib/contract/ids.ts'

/** The keys by name: `current` signs, all of them verify. */
export interface KeyRing {
  current: string
  keys: Readonly<Record<string, string>>
}

const WINDOW_SECONDS = 15 * 60
export const LINK_SECONDS = 3600
/** Of links to downloads: a file of four gigabytes takes hours over a slow line, and is continued after breaks. */
export const DOWNLOAD_SECONDS = 86_400

/** Links made within a quarter of an hour are identical, so that caches can reuse them. Unix seconds. */
export const expiryAt = (nowSeconds: number, seconds = LINK_SECONDS) =>
  Math.ceil((nowSeconds + seconds) / WINDOW_SECONDS) * WINDOW_SECONDS

/** `{kid}.{expiry in base 36}.{mac}`: opens everything below one prefix, or one object of the trash or of a download, until it
 * expires. */
export function signToken(ring: KeyRing, prefix: string, expires: number): string {
  const key = ring.keys[ring.current]
  if (key === undefined) throw new Error('no key to sign links with')
  const exp = expires.toString(36)
  return `${ring.current}.${exp}.${mac(key, ring.current, exp, prefix)}`
}

export interface Delivered {
  /** The resource that the file belongs to. The API delivers the file as long as this resource exists. */
  of:
    | { kind: 'media' | 'highlight'; orgId: Uuid; id: Uuid }
    | { kind: 'track'; id: Uuid }
    | { kind: 'download'; userId: Uuid; id: Uuid }
  /** Key of the object. */
  key: string
  /** Its name below the prefix of the media item, the highlight, the track or the download, e.g. `v1/master.m3u8`. */
  name: string
  /** Unix seconds. */
  expires: number
  /** The token is for this object alone, and opens it while its media item is in the trash. */
  isTrashed: boolean
}

const UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
// Excludes path traversal and hidden files: no leading dot, no escapes, no empty segments.
const SEGMENT = '[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}'
const GENERATION = `v[1-9][0-9]{0,8}(?:/${SEGMENT}){1,3}`
const PATHS = {
  media: new RegExp(`^(org/(${UUID})/media/(${UUID})/)(original|${GENERATION})$`),
  highlight: new RegExp(`^(org/(${UUID})/highlights/(${UUID})/)(${GENERATION})$`),
} as const
const TRACK = new RegExp(`^(tracks/(${UUID})/)(audio)$`)
/** Below a folder of the attempt that made it, which the name of the download leaves out. */
const DOWNLOAD = new RegExp(`^(downloads/(${UUID})/(${UUID})/)((?:${SEGMENT}/)?${SEGMENT})$`)
const TOKEN = /^([a-z0-9]{1,8})\.([0-9a-z]{1,9})\.([A-Za-z0-9_-]{22})$/

/** What a token and a path open together now; undefined if forged, expired or truncated, and for path traversal. */
export function openToken(ring: KeyRing, token: string, path: string, nowSeconds: number): Delivered | undefined {
  const named = readPath(path)
  if (!named) return undefined
  const opens = (what: string) => expiryOf(ring, token, what, nowSeconds)
  const of = { of: named.of, key: path, name: named.name }
  if (named.of.kind === 'download') {
    const expires = opens(path)
    return expires === undefined ? undefined : { ...of, expires, isTrashed: false }
  }
  const expires = opens(named.prefix)
  if (expires !== undefined) return { ...of, expires, isTrashed: false }
  // No prefix is a key: a prefix ends with a slash.
  const alone = named.of.kind === 'media' ? opens(path) : undefined
  return alone === undefined ? undefined : { ...of, expires: alone, isTrashed: true }
}

function readPath(path: string): (Pick<Delivered, 'of' | 'name'> & { prefix: string }) | undefined {
  for (const kind of ['media', 'highlight'] as const) {
    const [, prefix, orgId, id, name] = PATHS[kind].exec(path) ?? []
    if (prefix && orgId && id && name) return { prefix, name, of: { kind, orgId, id } }
  }
  const [, prefix, id, name] = TRACK.exec(path) ?? []
  if (prefix && id && name) return { prefix, name, of: { kind: 'track', id } }
  const [, below, userId, download, file] = DOWNLOAD.exec(path) ?? []
  return below && userId && download && file
    ? { prefix: below, name: file, of: { kind: 'download', userId, id: download } }
    : undefined
}

/** When a token for exactly this prefix expires, in Unix seconds; undefined if it is forged or has expired. */
export function expiryOf(ring: KeyRing, token: string, prefix: string, nowSeconds: number): number | undefined {
  const [, kid, exp, given] = TOKEN.exec(token) ?? []
  if (!kid || !exp || !given) return undefined
  const key = Object.hasOwn(ring.keys, kid) ? ring.keys[kid] : undefined
  if (key === undefined) return undefined
  // Compared as text: base64url has several spellings of the same 16 bytes, and only the signer's is valid.
  if (!timingSafeEqual(Buffer.from(given), Buffer.from(mac(key, kid, exp, prefix)))) return undefined
  const expires = Number.parseInt(exp, 36)
  return expires > nowSeconds ? expires : undefined
}

const mac = (key: string, kid: string, exp: string, prefix: string) =>
  createHmac('sha256', Buffer.from(key, 'base64url'))
    .update(`keepsake-link\n${kid}\n${exp}\n${prefix}`)
    .digest()
    .subarray(0, 16)
    .toString('base64url')
