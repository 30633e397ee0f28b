import { createSecretKey, hkdfSync, type KeyObject } from 'node:crypto'
import { errors, jwtVerify, SignJWT } from 'jose'
import * as z from 'zod'
import type { Uuid } from '../../../lib/contract/ids.ts'
import type { InvitationRow } from '../../db/schema/invitations.ts'
import type { KeyRing } from '../media/delivery/token.ts'

/** Everything that a token is made of: the same row and key make the same token, so none is ever stored. */
export interface TokenContent {
  id: Uuid
  generation: number
  /** Unix seconds. */
  expires: number
}

type Row = Pick<InvitationRow, 'id' | 'generation' | 'tokenExpiresAt'>

/** Whether the token is the one that the invitation has now. It may have expired. */
export const isTokenOf = (row: Row, token: TokenContent | undefined): boolean =>
  token?.id === row.id && token.generation === row.generation && token.expires * 1000 === row.tokenExpiresAt.getTime()

const ALGORITHM = 'HS256'
/** No other token of this server has this type and audience, and this one is accepted nowhere else. */
const TYPE = 'invitation+jwt'
const AUDIENCE = 'keepsake-invitation'

/** One key for each delivery key, so that both kinds of links are rotated together (ADR 25). */
const keyOf = (linkKey: string): KeyObject =>
  createSecretKey(Buffer.from(hkdfSync('sha256', Buffer.from(linkKey, 'base64url'), '', AUDIENCE, 32)))

export interface InvitationTokens {
  mint(content: TokenContent): Promise<string>
  /**
   * The content of a token that this server signed; undefined for any other text. Says nothing about its validity: that
   * depends on the row and on the clock of the database.
   */
  read(token: string): Promise<TokenContent | undefined>
}

/** base64url without padding (RFC 7515). jose also accepts padding, which would give one token several spellings. */
const SPELLING = /^[\w-]+\.[\w-]+\.[\w-]+$/

const Claims = z.object({ sub: z.guid(), gen: z.int().positive(), exp: z.int().positive() })

export function invitationTokens(ring: KeyRing): InvitationTokens {
  const keys = new Map(Object.entries(ring.keys).map(([kid, key]) => [kid, keyOf(key)]))
  const signing = keys.get(ring.current)
  return {
    async mint({ id, generation, expires }) {
      if (!signing) throw new Error('no key to sign invitations with')
      return new SignJWT({ gen: generation })
        .setProtectedHeader({ alg: ALGORITHM, typ: TYPE, kid: ring.current })
        .setSubject(id)
        .setAudience(AUDIENCE)
        .setExpirationTime(expires)
        .sign(signing)
    },
    async read(token) {
      if (!SPELLING.test(token)) return undefined
      try {
        const { payload } = await jwtVerify(token, ({ kid = '' }) => known(kid), {
          algorithms: [ALGORITHM],
          typ: TYPE,
          audience: AUDIENCE,
          requiredClaims: ['sub', 'gen', 'exp'],
          // Any time before the expiry: the clock of the database decides, not that of this replica.
          currentDate: new Date(0),
        })
        const { sub, gen, exp } = Claims.parse(payload)
        return { id: sub, generation: gen, expires: exp }
      } catch (error) {
        if (error instanceof errors.JOSEError || error instanceof z.ZodError) return undefined
        throw error
      }
    },
  }

  function known(kid: string): KeyObject {
    const key = keys.get(kid)
    if (key) return key
    throw new errors.JWKSNoMatchingKey()
  }
}
