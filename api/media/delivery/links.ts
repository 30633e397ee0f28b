import { mediaPrefix } from '../../../lib/contract/object-keys.ts'
import type { Clock } from '../../../lib/runtime/clock.ts'
import type { Links } from '../../deps.ts'
import { expiryAt, type KeyRing, LINK_SECONDS, signToken, windowAt } from './token.ts'

const KEY = /^org\/([0-9a-f-]{36})\/media\/([0-9a-f-]{36})\//

/** Signed links below `baseUrl` (no slash at its end). */
export function openLinks(options: { baseUrl: string; keys: KeyRing; clock: Clock }): Links {
  const now = () => Math.floor(options.clock.now().getTime() / 1000)
  return {
    url(key) {
      const [, orgId, mediaId] = KEY.exec(key) ?? []
      if (!orgId || !mediaId) throw new Error('only objects of a media can be delivered')
      const token = signToken(options.keys, mediaPrefix(orgId, mediaId), expiryAt(now()))
      return `${options.baseUrl}/d/${token}/${key}`
    },
    expiresIn: LINK_SECONDS,
    window: () => windowAt(now()),
  }
}
