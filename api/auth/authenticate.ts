import { errors } from 'jose'
import { formatId } from '../../lib/contract/ids.ts'
import { Problem } from '../../lib/contract/problem.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { Actor } from '../requests/actor.ts'
import type { LastUses } from './last-uses.ts'
import { tokenCache } from './token-cache.ts'
import type { Users } from './users.ts'
import { type Claims, unauthorized, type VerifierOptions } from './verify-token.ts'

const BEARER = /^Bearer +([\w.~+/=-]+) *$/i

/** Turns an Authorization header into the actor. Throws Problem UNAUTHORIZED or AUTH_UNAVAILABLE. */
export function authenticator(verifier: VerifierOptions, users: Users, lastUses: Pick<LastUses, 'note'>) {
  const verify = tokenCache(verifier)
  let warned = false
  async function verified(authorization: string | undefined, log: Log): Promise<Claims> {
    if (authorization === undefined) throw unauthorized()
    const token = BEARER.exec(authorization)?.[1]
    if (!token) throw unauthorized('invalid')
    const claims = await verify(token).catch((error: unknown) => {
      logRefusal(error, log)
      throw error
    })
    if (!warned && claims.signIn === null) {
      warned = true
      log.warn(
        'tokens have none of sid, origin_jti and auth_time: sessions cannot be signed out one by one, and signing out on all devices lasts only until the next refresh',
      )
    }
    return claims
  }

  return async (
    authorization: string | undefined,
    request: { log: Log; ip?: string; closedToo?: boolean },
  ): Promise<Actor> => {
    const claims = await verified(authorization, request.log)
    const ip = request.ip ?? ''
    const { isEnded, isClosed, sessionId } = await users.know(claims, ip)
    if (isClosed && request.closedToo) {
      return { userId: claims.userId, platformAdmin: false, sessionId: null, isClosed: true }
    }
    if (isEnded) {
      const session = sessionId === null ? null : formatId('session', sessionId)
      request.log.info({ user_id: claims.userId, session_id: session }, 'token refused: its sign-in has ended')
      throw unauthorized('revoked')
    }
    if (sessionId !== null) lastUses.note(claims.userId, sessionId, ip)
    return {
      userId: claims.userId,
      platformAdmin: claims.roles.includes('ROLE_ADMIN'),
      sessionId,
      validUntil: claims.validUntil,
      signIn: { name: claims.signIn, authTime: claims.authTime, issuedAt: claims.issuedAt },
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
