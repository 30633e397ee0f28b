import { errors } from 'jose'
import { Problem } from '../../lib/contract/problem.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { Actor } from './actor.ts'
import { tokenCache } from './token-cache.ts'
import type { Users } from './users.ts'
import { unauthorized, type VerifierOptions } from './verify-token.ts'

const BEARER = /^Bearer +([\w.~+/=-]+) *$/i

/** Turns an Authorization header into the actor. Throws Problem UNAUTHORIZED or AUTH_UNAVAILABLE. */
export function authenticator(verifier: VerifierOptions, users: Users) {
  const verify = tokenCache(verifier)
  let warned = false
  return async (authorization: string | undefined, request: { log: Log }): Promise<Actor> => {
    if (authorization === undefined) throw unauthorized()
    const token = BEARER.exec(authorization)?.[1]
    if (!token) throw unauthorized('invalid')
    const claims = await verify(token).catch((error: unknown) => {
      logRefusal(error, request.log)
      throw error
    })
    if (!warned && claims.authTime === undefined && claims.sessionId === null) {
      warned = true
      request.log.warn(
        'tokens hold neither auth_time nor sid: signing out everywhere lasts until the next refresh only',
      )
    }
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

/** The client is told no more than that it is invalid; why is for whoever has configured the issuer or the audience. */
function logRefusal(error: unknown, log: Log): void {
  const cause = error instanceof Problem ? error.cause : undefined
  // Expired ones come all the time, and what to do about them is said to the client.
  if (!(cause instanceof errors.JOSEError) || cause instanceof errors.JWTExpired) return
  log.info({ reason: cause.message }, 'token refused')
}
