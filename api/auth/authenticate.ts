import { errors } from 'jose'
import { Problem } from '../../lib/contract/problem.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { Actor } from '../requests/actor.ts'
import { signInOf } from './policy.ts'
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
        'tokens have neither auth_time nor sid: signing out on all devices lasts only until the next refresh',
      )
    }
    if (await users.isRevoked(claims)) {
      request.log.info({ user_id: claims.userId }, 'token refused: its sign-in has ended')
      throw unauthorized('revoked')
    }
    return {
      userId: claims.userId,
      platformAdmin: claims.roles.includes('ROLE_ADMIN'),
      sessionId: claims.sessionId,
      validUntil: claims.validUntil,
      signIn: { name: signInOf(claims, claims.sessionId), authTime: claims.authTime, issuedAt: claims.issuedAt },
    }
  }
}

/** The client learns only that the token is invalid; the log gets the reason, e.g. a wrong issuer or audience. */
function logRefusal(error: unknown, log: Log): void {
  const cause = error instanceof Problem ? error.cause : undefined
  // Expired tokens are common, and the response tells the client to refresh.
  if (!(cause instanceof errors.JOSEError) || cause instanceof errors.JWTExpired) return
  log.info({ reason: cause.message }, 'token refused')
}
