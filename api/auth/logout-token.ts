import { errors, type JWTPayload, jwtVerify } from 'jose'
import { invalid, type Problem } from '../../lib/contract/problem.ts'
import { isIdentifier, type VerifierOptions } from './verify-token.ts'

const EVENT = 'http://schemas.openid.net/event/backchannel-logout'
/** Logout tokens are sent at once. A provider repeats a failed request for some minutes with the same token. */
const OLDEST = 10 * 60
const TOLERANCE = 30
const MAX_TOKEN = 8 * 1024

export interface LogoutToken {
  jti: string
  subject: string | undefined
  sid: string | undefined
}

/**
 * Checks a logout token (OpenID Connect Back-Channel Logout 1.0 §2.6). Throws Problem VALIDATION_ERROR, or AUTH_UNAVAILABLE
 * without keys.
 */
export async function verifyLogoutToken(
  token: string,
  o: Pick<VerifierOptions, 'keys' | 'clock' | 'issuer'> & { clientIds: readonly string[] },
): Promise<LogoutToken> {
  if (token.length > MAX_TOKEN) throw refused()
  try {
    const { payload, protectedHeader } = await jwtVerify(token, o.keys.key, {
      algorithms: ['RS256'],
      issuer: o.issuer,
      audience: [...o.clientIds],
      requiredClaims: ['iat', 'jti'],
      maxTokenAge: OLDEST,
      clockTolerance: TOLERANCE,
      currentDate: o.clock.now(),
    })
    // The type is recommended only. An access token of the same issuer has another one.
    const { typ } = protectedHeader
    if (typ !== undefined && !['logout+jwt', 'application/logout+jwt', 'jwt'].includes(typ.toLowerCase()))
      throw refused()
    return claimsOf(payload)
  } catch (error) {
    if (error instanceof errors.JOSEError) throw refused(error)
    throw error
  }
}

function claimsOf({ events, nonce, jti, sub, sid }: JWTPayload): LogoutToken {
  const isLogout = typeof events === 'object' && events !== null && Object.hasOwn(events, EVENT)
  // A nonce would be that of an ID token.
  if (!isLogout || nonce !== undefined || !isIdentifier(jti)) throw refused()
  const [subject, session] = [isIdentifier(sub) ? sub : undefined, isIdentifier(sid) ? sid : undefined]
  if (subject === undefined && session === undefined) throw refused()
  return { jti, subject, sid: session }
}

function refused(cause?: Error): Problem {
  const problem = invalid([{ field: 'body.logout_token', issue: 'is not a valid logout token for this server' }])
  problem.cause = cause
  return problem
}
