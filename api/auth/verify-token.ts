import { createHash } from 'node:crypto'
import { errors, type JWTPayload, jwtVerify } from 'jose'
import type { Uuid } from '../../lib/contract/ids.ts'
import { Problem } from '../../lib/contract/problem.ts'
import type { Clock } from '../../lib/runtime/clock.ts'
import { isKeepable } from '../requests/text.ts'
import type { KeySource } from './key-source.ts'
import type { TokenAge } from './policy.ts'

/** The claims of a valid token. */
export interface Claims extends TokenAge {
  userId: Uuid
  issuer: string
  subject: string
  /** Verified address. Null: the token calls the address unverified. Undefined: the token makes no valid statement. */
  email: string | null | undefined
  displayName: string | undefined
  /** A BCP 47 language tag, such as `de` or `pt-BR`. */
  locale: string | undefined
  roles: string[]
  /** `sid` */
  sessionId: string | null
  /** The token is refused from this time on. Unix seconds. */
  validUntil: number
}

export interface VerifierOptions {
  keys: KeySource
  clock: Clock
  issuer: string
  audience: string
  tokenType: string
}

/** Maximum age of a token, and maximum difference of the clocks, in seconds. */
const OLDEST = 20 * 60
const TOLERANCE = 30
const MAX_TOKEN = 8 * 1024
/** Some providers write `de_AT`. */
const LOCALE = /^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8}){0,3}$/
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: they must not reach the database or a log
const CONTROL = /[\u0000-\u001f\u007f]/g

/**
 * Checks signature (RS256 only), issuer, audience, age, expiry and type. Throws Problem UNAUTHORIZED for an invalid
 * token, AUTH_UNAVAILABLE if the token cannot be verified now.
 */
export async function verifyToken(token: string, o: VerifierOptions): Promise<Claims> {
  if (token.length > MAX_TOKEN) throw unauthorized('invalid')
  try {
    const { payload } = await jwtVerify(token, o.keys.key, {
      algorithms: ['RS256'],
      issuer: o.issuer,
      audience: o.audience,
      // By default jose accepts a token without exp.
      requiredClaims: ['exp', 'iat', 'sub'],
      maxTokenAge: OLDEST,
      clockTolerance: TOLERANCE,
      typ: o.tokenType,
      currentDate: o.clock.now(),
    })
    return claimsOf(payload, o.issuer)
  } catch (error) {
    if (error instanceof errors.JWTExpired) throw unauthorized('expired', error)
    if (error instanceof errors.JOSEError) throw unauthorized('invalid', error)
    throw error
  }
}

/** `expired`: refresh and try again. `revoked`, `invalid`: sign in again. Without a reason: no token was sent. */
export function unauthorized(reason?: 'expired' | 'invalid' | 'revoked', cause?: unknown): Problem {
  const challenge = reason ? `Bearer error="invalid_token", error_description="${reason}"` : 'Bearer'
  const message = reason ? `The access token is ${reason}` : 'An access token is required'
  return new Problem('UNAUTHORIZED', message, { cause, headers: { 'WWW-Authenticate': challenge } })
}

function claimsOf(payload: JWTPayload, issuer: string): Claims {
  const subject = payload.sub ?? ''
  const issuedAt = payload.iat ?? 0
  if (!isIdentifier(subject)) throw unauthorized('invalid')
  const { roles, email, email_verified: verified, name, locale } = payload
  return {
    userId: userIdOf(issuer, subject),
    issuer,
    subject,
    // Providers also send "false", 0, or nothing. Only the boolean of OpenID Connect Core §5.1 is reliable.
    email: verified === true ? cleaned(email, 320) : verified === false ? null : undefined,
    displayName: cleaned(name, 200),
    locale: typeof locale === 'string' && LOCALE.test(locale) ? locale : undefined,
    roles: Array.isArray(roles) ? roles.filter((role) => typeof role === 'string') : [],
    ...sessionOf(payload),
    issuedAt,
    validUntil: Math.min(payload.exp ?? 0, issuedAt + OLDEST) + TOLERANCE,
  }
}

/** The session claims of an access token or an ID token. */
export function sessionOf({ sid, auth_time: authTime, iat = 0 }: JWTPayload): Pick<Claims, 'sessionId' | 'authTime'> {
  // A token is issued after its user has signed in. Any later time is wrong, e.g. in milliseconds.
  const isTime = typeof authTime === 'number' && authTime <= iat + TOLERANCE
  return { sessionId: isIdentifier(sid) ? sid : null, authTime: isTime ? authTime : undefined }
}

/** Whether the database can store and compare the value unchanged. */
export const isIdentifier = (value: unknown): value is string =>
  typeof value === 'string' && value !== '' && value.length <= 255 && isKeepable(value) && value.search(CONTROL) < 0

const cleaned = (value: unknown, longest: number) =>
  typeof value === 'string'
    ? value.toWellFormed().replace(CONTROL, '').trim().slice(0, longest).toWellFormed() || undefined
    : undefined

/** The subject if it is a UUID, as the specification requires; else a UUID derived from it (RFC 9562 version 8). */
export function userIdOf(issuer: string, subject: string): Uuid {
  const lower = subject.toLowerCase()
  if (UUID.test(lower)) return lower
  const bytes = createHash('sha256').update(`${issuer}\n${subject}`).digest().subarray(0, 16)
  bytes[6] = 0x80 | ((bytes[6] ?? 0) & 0x0f)
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f)
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
