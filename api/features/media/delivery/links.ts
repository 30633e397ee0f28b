import { downloadPrefix, highlightPrefix, mediaPrefix, trackKey } from '../../../../lib/contract/object-keys.ts'
import type { Clock } from '../../../../lib/runtime/clock.ts'
import type { Links } from '../../../deps.ts'
import { DOWNLOAD_SECONDS, expiryAt, type KeyRing, LINK_SECONDS, signToken } from './token.ts'

const ID = '[0-9a-f-]{36}'
/** What a link is signed for: a media item, a highlight or a track. */
const SIGNED = `(?:${mediaPrefix(ID, ID)}|${highlightPrefix(ID, ID)}|${trackKey(ID).replace(/[^/]+$/, '')})`
const PREFIX = new RegExp(`^${SIGNED}`)
const LINK = new RegExp(`/d/[^/]+/(${SIGNED}.+)$`)
const TRASHED = new RegExp(`^${mediaPrefix(ID, ID)}v[^/]+/[^/]+$`)
const DOWNLOAD = new RegExp(`^${downloadPrefix(ID, ID)}(?:[^/]+/)?[^/]+$`)
const MAX_TOKENS = 10_000

/** Makes signed links below `baseUrl` (without a trailing slash). */
export function openLinks(options: { baseUrl: string; keys: KeyRing; clock: Clock }): Links {
  const now = () => Math.floor(options.clock.now().getTime() / 1000)
  const tokenFor = remembering((prefix, expires) => signToken(options.keys, prefix, expires))
  const url = (key: string) => {
    const [prefix] = PREFIX.exec(key) ?? []
    if (!prefix) throw new Error('only objects of media items, highlights and tracks can be delivered')
    return `${options.baseUrl}/d/${tokenFor(prefix, expiryAt(now()))}/${key}`
  }
  return {
    url,
    renewed(link) {
      const [, key] = LINK.exec(link) ?? []
      if (!key) throw new Error('this is no link that `url` made')
      return url(key)
    },
    trashed(key) {
      if (!TRASHED.test(key)) throw new Error('of a deleted media item, only derivatives can be delivered')
      return `${options.baseUrl}/d/${tokenFor(key, expiryAt(now()))}/${key}`
    },
    expiresIn: LINK_SECONDS,
    download(key) {
      if (!DOWNLOAD.test(key)) throw new Error('only a file of a download has such a link')
      return `${options.baseUrl}/d/${signToken(options.keys, key, expiryAt(now(), DOWNLOAD_SECONDS))}/${key}`
    },
    downloadExpiresIn: DOWNLOAD_SECONDS,
  }
}

/** All links of a media item within a quarter of an hour share a token: signing is the main cost of a page of links. */
function remembering(sign: (prefix: string, expires: number) => string) {
  const tokens = new Map<string, string>()
  let of = 0
  return (prefix: string, expires: number): string => {
    if (expires !== of || tokens.size >= MAX_TOKENS) tokens.clear()
    of = expires
    const token = tokens.get(prefix) ?? sign(prefix, expires)
    tokens.set(prefix, token)
    return token
  }
}
