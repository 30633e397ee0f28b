import { createHash } from 'node:crypto'
import { decodeJwt, errors, type JWTPayload, jwtVerify } from 'jose'
import type { Uuid } from '../../lib/contract/ids.ts'
import { Problem } from '../../lib/contract/problem.ts'
import type { Clock } from '../../lib/runtime/clock.ts'
import { isKeepable } from '../requests/text.ts'
import type { KeySource } from './key-source.ts'
import { type SignInClaims, signInOf, type TokenAge } from './policy.ts'

/** The claims of a valid token. */
export interface Claims extends TokenAge {
  userId: Uuid
  issuer: string
  subject: string
  /** Verified address. Null: the token calls the address unverified. Undefined: the token makes no valid statement. */
  email: string | null | undefined
  /** Verified number, E.164. Null and undefined as for the address. */
  phoneNumber: string | null | undefined
  displayName: string | undefined
  /** A BCP 47 language tag, such as `de` or `pt-BR`. */
  locale: string | undefined
  roles: string[]
  /** The name of its sign-in, see `signInOf`. */
  signIn: string | null
  /** That the ID token gave the name: the access token by itself cannot be told from those of other sign-ins. */
  isNamedByIdToken?: boolean
  /** `sid`, by which the identity provider says that a sign-in has ended. */
  sid: string | null
  /** The token is refused from this time on. Unix seconds. */
  validUntil: number
}

export interface VerifierOptions {
  keys: KeySource
  clock: Clock
  issuer: string
  /** Those that are accepted. */
  audience: readonly string[]
  /** The claim that names it: Amazon Cognito has `client_id` in place of `aud`. Never either. */
  audienceClaim: 'aud' | 'client_id'
  /** `typ` of the header; undefined where the provider sets none. */
  tokenType: string | undefined
  /** The claim `token_use`, which tells access tokens from ID tokens of the same issuer where `typ` does not. */
  tokenUse: string | undefined
  /** The claim that lists the roles. */
  rolesClaim: string
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
      ...(o.audienceClaim === 'aud' && { audience: [...o.audience] }),
      // By default jose accepts a token without exp.
      requiredClaims: ['exp', 'iat', 'sub'],
      maxTokenAge: OLDEST,
      clockTolerance: TOLERANCE,
      ...(o.tokenType !== undefined && { typ: o.tokenType }),
      currentDate: o.clock.now(),
    })
    requireForUs(payload, o)
    return claimsOf(payload, o)
  } catch (error) {
    if (error instanceof errors.JWTExpired) throw unauthorized('expired', error)
    if (error instanceof errors.JOSEError) throw unauthorized('invalid', error)
    throw error
  }
}

/** What jose does not compare. */
function requireForUs(payload: JWTPayload, o: VerifierOptions): void {
  const refuse = (claim: string) =>
    new errors.JWTClaimValidationFailed(`unexpected "${claim}" claim value`, payload, claim, 'check_failed')
  const { client_id: client } = payload
  if (o.audienceClaim === 'client_id' && (typeof client !== 'string' || !o.audience.includes(client))) {
    throw refuse('client_id')
  }
  if (o.tokenUse !== undefined && payload['token_use'] !== o.tokenUse) throw refuse('token_use')
}

/** `expired`: refresh and try again. `revoked`, `invalid`: sign in again. Without a reason: no token was sent. */
export function unauthorized(reason?: 'expired' | 'invalid' | 'revoked', cause?: unknown): Problem {
  const challenge = reason ? `Bearer error="invalid_token", error_description="${reason}"` : 'Bearer'
  const message = reason ? `The access token is ${reason}` : 'An access token is required'
  return new Problem('UNAUTHORIZED', message, { cause, headers: { 'WWW-Authenticate': challenge } })
}

/** Of a refresh token, as of an access token that is revoked. */
export function refreshRefused(cause?: unknown): Problem {
  const { headers = {} } = unauthorized('revoked')
  return new Problem('UNAUTHORIZED', 'The refresh token is not valid. Sign in again.', { cause, headers })
}

function claimsOf(payload: JWTPayload, { issuer, rolesClaim }: VerifierOptions): Claims {
  const subject = payload.sub ?? ''
  const issuedAt = payload.iat ?? 0
  if (!isIdentifier(subject)) throw unauthorized('invalid')
  const { [rolesClaim]: roles } = payload
  const named = sessionOf(payload)
  return {
    userId: userIdOf(issuer, subject),
    issuer,
    subject,
    ...factsOf(payload),
    roles: Array.isArray(roles) ? roles.filter((role) => typeof role === 'string') : [],
    signIn: signInOf(named),
    sid: named.sid,
    authTime: named.authTime,
    issuedAt,
    validUntil: validUntilOf(payload),
  }
}

const validUntilOf = ({ exp = 0, iat = 0 }: JWTPayload) => Math.min(exp, iat + OLDEST) + TOLERANCE

/** Whether the token is too old, whatever else may be wrong with it: its key may not be published any more. */
export function isTooOld(token: string, { clock }: Pick<VerifierOptions, 'clock'>): boolean {
  try {
    return validUntilOf(decodeJwt(token)) <= clock.now().getTime() / 1000
  } catch {
    return false
  }
}

/** What an access token or an ID token says of the person. */
export function factsOf(payload: JWTPayload): Pick<Claims, 'email' | 'phoneNumber' | 'displayName' | 'locale'> {
  const { email, email_verified: verified, phone_number: phone, name, locale } = payload
  const { phone_number_verified: phoneVerified } = payload
  return {
    // Providers also send "false", 0, or nothing. Only the boolean of OpenID Connect Core §5.1 is reliable.
    email: verified === true ? cleaned(email, 320) : verified === false ? null : undefined,
    phoneNumber: phoneVerified === true ? phoneOf(phone) : phoneVerified === false ? null : undefined,
    displayName: cleaned(name, 200),
    locale: typeof locale === 'string' && LOCALE.test(locale) ? locale : undefined,
  }
}

/** The session claims of an access token or an ID token. */
export function sessionOf({ sid, origin_jti: originJti, auth_time: authTime, iat = 0 }: JWTPayload): SignInClaims {
  // A token is issued after its user has signed in. Any later time is wrong, e.g. in milliseconds.
  const isTime = typeof authTime === 'number' && authTime >= 0 && authTime <= iat + TOLERANCE
  return {
    sid: isIdentifier(sid) ? sid : null,
    originJti: isIdentifier(originJti) ? originJti : null,
    // The database keeps whole seconds.
    authTime: isTime ? Math.floor(authTime) : undefined,
  }
}

/** Whether the database can store and compare the value unchanged. */
export const isIdentifier = (value: unknown): value is string =>
  typeof value === 'string' && value !== '' && value.length <= 255 && isKeepable(value) && value.search(CONTROL) < 0

/** OpenID Connect Core §5.1 recommends E.164; providers also write spaces, hyphens and brackets. */
function phoneOf(value: unknown): string | undefined {
  const number = typeof value === 'string' ? value.replace(/[\s().-]/g, '') : ''
  return /^\+[1-9][0-9]{6,14}$/.test(number) ? number : undefined
}

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
