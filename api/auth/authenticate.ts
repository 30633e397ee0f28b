import type { Log } from '../../lib/runtime/log.ts'
import type { Actor } from './actor.ts'
import { tokenCache } from './token-cache.ts'
import type { Users } from './users.ts'
import { unauthorized, type VerifierOptions } from './verify-token.ts'

const BEARER = /^Bearer +([\w.~+/=-]+) *$/i

/** Turns an Authorization header into the actor. Throws Problem UNAUTHORIZED or AUTH_UNAVAILABLE. */
export function authenticator(verifier: VerifierOptions, users: Users) {
  const verify = tokenCache(verifier)
  return async (authorization: string | undefined, request: { log: Log }): Promise<Actor> => {
    if (authorization === undefined) throw unauthorized()
    const token = BEARER.exec(authorization)?.[1]
    if (!token) throw unauthorized('invalid')
    const claims = await verify(token)
    if (await users.isRevoked(claims)) {
      request.log.info({ user_id: claims.userId }, 'token of an ended sign-in')
      throw unauthorized('revoked')
    }
    return {
      userId: claims.userId,
      platformAdmin: claims.roles.includes('ROLE_ADMIN'),
      sessionId: claims.sessionId,
    }
  }
}
