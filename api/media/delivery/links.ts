import { mediaPrefix } from '../../../lib/contract/object-keys.ts'
import type { Clock } from '../../../lib/runtime/clock.ts'
import type { Links } from '../../deps.ts'
import { expiryAt, type KeyRing, LINK_SECONDS, signToken } from './token.ts'

const NIL = '00000000-0000-0000-0000-000000000000'
/** Ids have a fixed length, and so does the prefix that a link is signed for. */
const PREFIX = new RegExp(`^${mediaPrefix('[0-9a-f-]{36}', '[0-9a-f-]{36}')}$`)
const PREFIX_LENGTH = mediaPrefix(NIL, NIL).length
const MOST_TOKENS = 10_000

/** Makes signed links below `baseUrl` (without a trailing slash). */
export function openLinks(options: { baseUrl: string; keys: KeyRing; clock: Clock }): Links {
  const now = () => Math.floor(options.clock.now().getTime() / 1000)
  const tokenFor = remembering((prefix, expires) => {
    if (!PREFIX.test(prefix)) throw new Error('only objects of a media item can be delivered')
    return signToken(options.keys, prefix, expires)
  })
  return {
    url(key) {
      return `${options.baseUrl}/d/${tokenFor(key.slice(0, PREFIX_LENGTH), expiryAt(now()))}/${key}`
    },
    expiresIn: LINK_SECONDS,
  }
}

/** All links of a media item within a quarter of an hour share a token: signing is the main cost of a page of links. */
function remembering(sign: (prefix: string, expires: number) => string) {
  const tokens = new Map<string, string>()
  let of = 0
  return (prefix: string, expires: number): string => {
    if (expires !== of || tokens.size >= MOST_TOKENS) tokens.clear()
    of = expires
    const token = tokens.get(prefix) ?? sign(prefix, expires)
    tokens.set(prefix, token)
    return token
  }
}
