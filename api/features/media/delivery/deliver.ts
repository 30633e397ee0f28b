import type { IncomingHttpHeaders } from 'node:http'
import type { Uuid } from '../../../../lib/contract/ids.ts'
import { type OriginalTier, originalKeyIn } from '../../../../lib/contract/object-keys.ts'
import { DELIVERED_TYPES } from '../../../../lib/contract/output-types.ts'
import { Problem } from '../../../../lib/contract/problem.ts'
import type { Clock } from '../../../../lib/runtime/clock.ts'
import { eitherTier } from '../../../../lib/runtime/object-store/either-tier.ts'
import { type ObjectInfo, type ObjectStore, StoreError } from '../../../../lib/runtime/object-store/object-store.ts'
import type { Database, Tx } from '../../../db/db.ts'
import { isNoneMatch } from '../../../http/if-none-match.ts'
import type { RawReply } from '../../../requests/bytes.ts'
import { findDownload } from '../../downloads/queries.ts'
import { findTrashed } from '../deletion/queries.ts'
import { attachment } from '../filename.ts'
import { findDelivered } from '../queries.ts'
import { mayUseRange, parseRange } from './range.ts'
import { type Delivered, type KeyRing, openToken } from './token.ts'

/** Finds what other features deliver through the same links; undefined for what does not exist, or no longer. */
export interface AboveDelivery {
  findDeliveredHighlight(tx: Tx, orgId: Uuid, id: Uuid): Promise<Pick<Subject, 'status'> | undefined>
  findDeliveredTrack(tx: Tx, id: Uuid): Promise<Subject['own']>
}

export interface DeliveryDeps {
  above: AboveDelivery
  db: Database
  store: ObjectStore
  clock: Clock
  keys: KeyRing
}

/** Outputs by file extension. Clients get no other output, in particular not the manifest. */
const TYPES: Readonly<Record<string, string>> = DELIVERED_TYPES
/** Files of downloads by extension. All are attachments: none is shown under the address of the API. */
const DOWNLOAD_TYPES: Readonly<Record<string, string>> = {
  zip: 'application/zip',
  csv: 'text/csv; charset=utf-8',
  jsonl: 'application/jsonl',
  json: 'application/json',
  gz: 'application/gzip',
}
const SEGMENTS = new Set(['ts', 'm4s'])
const PRESIGNED_SECONDS = 300
const PLAYLIST_SECONDS = 60

/** Players on other sites may read a file; nothing in it may run, be framed or be taken for another type. */
const COMMON = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers': 'Accept-Ranges, Content-Length, Content-Range, ETag',
  'Content-Security-Policy': "sandbox; default-src 'none'",
  'Cross-Origin-Resource-Policy': 'cross-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
}

/** One answer for everything that is wrong with a link: it does not reveal what exists. */
const notHere = (cause?: unknown) =>
  new Problem('NOT_FOUND', 'There is nothing at this address, or the link has expired', { cause })

/** What the API may deliver now. An original has the type of its media item, an output the type of its extension. */
interface Subject {
  status: 'processing' | 'completed' | 'failed'
  own?: { mimeType: string; filename?: string; originalTier?: OriginalTier }
}

async function findSubject({ db, above }: DeliveryDeps, { of, isTrashed }: Delivered): Promise<Subject | undefined> {
  if (of.kind === 'highlight')
    return db.readAtOnce({ org: of.orgId }, (tx) => above.findDeliveredHighlight(tx, of.orgId, of.id))
  if (of.kind === 'track') {
    const own = await db.readAtOnce({}, (tx) => above.findDeliveredTrack(tx, of.id))
    return own && { status: 'completed', own }
  }
  if (of.kind === 'download') {
    const download = await db.readAtOnce({ user: of.userId }, (tx) => findDownload(tx, of.id))
    return download && { status: 'completed' }
  }
  const find = isTrashed ? findTrashed : findDelivered
  const media = await db.readAtOnce({ org: of.orgId }, (tx) => find(tx, of.orgId, of.id))
  return media && { status: media.uploadStatus, own: media }
}

/** The name of a file that is no output: it has the type of the media item or of the track. */
const OWN = new Set(['original', 'audio'])

/** `HEAD` takes the headers alone, without a read in the store. */
interface Asked {
  method: string
  headers: IncomingHttpHeaders
  signal: AbortSignal
}

/** Delivers one object to any client with a valid link, as long as what it belongs to exists. */
export async function deliver(deps: DeliveryDeps, o: Asked & { token: string; path: string }): Promise<RawReply> {
  const now = deps.clock.now().getTime() / 1000
  const wanted = openToken(deps.keys, o.token, o.path, now)
  if (!wanted) throw notHere()
  // Asked for every request: a deleted media item is gone at once, even for valid links.
  const subject = await findSubject(deps, wanted)
  if (!subject) throw notHere()
  const ending = wanted.name.split('.').at(-1) ?? ''
  const isDownload = wanted.of.kind === 'download'
  const type = OWN.has(wanted.name) ? subject.own?.mimeType : typeOf(ending, isDownload ? DOWNLOAD_TYPES : TYPES)
  if (!type) throw notHere()

  // A presigned link is for one method: a client that followed it with HEAD would be refused.
  if (SEGMENTS.has(ending) && !isDownload && o.method !== 'HEAD') {
    const url = await deps.store.presignGet(wanted.key, PRESIGNED_SECONDS, type)
    if (url) return redirect(url)
  }
  const headers = {
    ...COMMON,
    'Content-Type': type,
    'Cache-Control': cacheControl(wanted, ending, Math.floor(wanted.expires - now), subject.status),
    ...(isDownload && { 'Content-Disposition': attachment(wanted.name.split('/').at(-1) ?? '') }),
    ...(wanted.name === 'original' && { 'Content-Disposition': attachment(subject.own?.filename ?? 'original') }),
  }
  const key = keyOf(wanted, subject)
  const store = storeOf(deps, wanted)
  return stream(store, key, headers, o).catch(async (error: unknown) => {
    // The original has moved to the cold tier since the row was read.
    const now = wanted.name === 'original' && isNotHere(error) ? await findSubject(deps, wanted) : undefined
    if (!now || keyOf(wanted, now) === key) throw error
    return stream(store, keyOf(wanted, now), headers, o)
  })
}

const storeOf = ({ store }: DeliveryDeps, { name }: Delivered) => (name === 'original' ? eitherTier(store) : store)

const isNotHere = (error: unknown) => error instanceof Problem && error.code === 'NOT_FOUND'

/** Links name an original by the key that it was uploaded to; the row says where it is. */
function keyOf({ of, name, key }: Delivered, { own }: Subject): string {
  const isMoved = of.kind === 'media' && name === 'original' && own?.originalTier !== undefined
  return isMoved ? originalKeyIn(own.originalTier as OriginalTier, of.orgId, of.id) : key
}

const typeOf = (ending: string, types: Readonly<Record<string, string>>) =>
  Object.hasOwn(types, ending) ? types[ending] : undefined

/** Shared caches must not store what a link opens for one person; a private cache may, until the link expires. */
function cacheControl(wanted: Delivered, ending: string, secondsLeft: number, status: string): string {
  // All that a person has, in a file of gigabytes.
  if (wanted.of.kind === 'download') return 'private, no-store'
  // The first master playlist lists one rendition: a cached copy would hide the later ones from an early player.
  if (ending === 'm3u8' && status === 'processing') return 'private, no-cache'
  if (ending === 'm3u8') return `private, max-age=${Math.min(PLAYLIST_SECONDS, secondsLeft)}`
  const immutable = OWN.has(wanted.name) ? '' : ', immutable'
  return `private, max-age=${secondsLeft}${immutable}`
}

/** Cached for half the lifetime of the presigned link, so that a cached redirect never leads to an expired one. */
const redirect = (url: string): RawReply => ({
  status: 302,
  headers: { ...COMMON, Location: url, 'Cache-Control': `private, max-age=${PRESIGNED_SECONDS / 2}` },
})

async function stream(
  store: Pick<ObjectStore, 'get' | 'head'>,
  key: string,
  headers: Record<string, string>,
  o: Asked,
): Promise<RawReply> {
  const isHead = o.method === 'HEAD'
  const isLookedAt = isHead || o.headers.range !== undefined || o.headers['if-none-match'] !== undefined
  const known = isLookedAt ? await store.head(key) : undefined
  if (isLookedAt && !known) throw notHere()
  const early = known && beforeReading(known, headers, o.headers)
  if (early && 'status' in early) return early
  if (known && isHead) return success(known, headers, early)

  const found = await store.get(key, early, o.signal).catch((error: unknown) => {
    throw error instanceof StoreError && error.code === 'NotFound' ? notHere(error) : error
  })
  if (early && found.info.etag !== known.etag) {
    // Replaced between the two requests: the range was chosen for another representation.
    found.body.destroy()
    throw new Problem('SERVICE_UNAVAILABLE', 'The file has just changed. Please try again.', { retryAfter: 1 })
  }
  return { ...success(found.info, headers, early), body: found.body }
}

/** Of the whole file, or of a range of it. */
function success(info: ObjectInfo, headers: Record<string, string>, span?: { start: number; end: number }) {
  if (!span) return { status: 200, headers: { ...headers, ...described(info) } }
  const range = {
    'Content-Length': String(span.end - span.start + 1),
    'Content-Range': `bytes ${span.start}-${span.end}/${info.size}`,
  }
  return { status: 206, headers: { ...headers, ...described(info), ...range } }
}

/** Returns a response that needs no bytes, the range of bytes to send, or undefined for all bytes. */
function beforeReading(info: ObjectInfo, headers: Record<string, string>, asked: IncomingHttpHeaders) {
  if (isNoneMatch(asked['if-none-match'], info.etag)) {
    const { 'Content-Length': _, ...tags } = described(info)
    return { status: 304, headers: { ...headers, ...tags } }
  }
  if (!mayUseRange(asked['if-range'] as string | undefined, info.etag, info.lastModified)) return undefined
  const span = parseRange(asked.range, info.size)
  if (span === 'whole') return undefined
  if (span !== 'unsatisfiable') return span
  return { status: 416, headers: { ...headers, 'Content-Length': '0', 'Content-Range': `bytes */${info.size}` } }
}

const described = (info: ObjectInfo) => ({
  'Accept-Ranges': 'bytes',
  'Content-Length': String(info.size),
  ETag: info.etag,
  'Last-Modified': info.lastModified.toUTCString(),
})
