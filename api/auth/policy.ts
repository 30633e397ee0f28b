import { signedIn } from '../permissions/facts.ts'
import { onCaller } from '../permissions/rule.ts'

export const sessionActions = {
  read: onCaller('session.read', 'see where they are signed in', signedIn),
  end: onCaller('session.end', 'sign out on one device, or on all but this one', signedIn),
  endAll: onCaller('session.end_all', 'sign out on all devices', signedIn),
} as const

/** The age of a token. Unix seconds. */
export interface TokenAge {
  /** When the user signed in (`auth_time`); undefined if the token does not tell. A refresh does not change it. */
  authTime: number | undefined
  issuedAt: number
}

/** What names the sign-in of a token, where anything does. */
export interface SignInClaims {
  sid: string | null
  /** Of Amazon Cognito: the same in all tokens of one sign-in. */
  originJti: string | null
  authTime: number | undefined
}

/** A sign-in as it is recorded. Unix seconds of the database's clock, except the two of the identity provider. */
export interface RecordedSignIn {
  /** When it began, as far as this server knows: never later than its first token here. */
  since: number
  /** `auth_time`; null where its tokens do not tell. */
  authTime: number | null
  /** Whether this server saw the user sign in: `since` is exact then. */
  isWitnessed: boolean
  endedAt: number | null
  /** The latest `auth_time` that has ended. */
  endedAuthTime: number | null
  /** Sign-outs on all other devices, up to this time, were its own. */
  sparedUntil: number | null
}

/** What has ended, of a user and of one of their sign-ins. Unix seconds. */
export interface SignOuts {
  /** When the user last signed out on all devices; minus infinity before the first time. */
  notBefore: number
  /** Null where the sign-in of the token is not recorded. */
  signIn: RecordedSignIn | null
}

/**
 * The name of a sign-in, the same for all of its tokens; null if nothing in the token tells it from other sign-ins. Two
 * sign-ins within one second share an `auth_time`, so it comes last.
 */
export function signInOf({ sid, originJti, authTime }: SignInClaims): string | null {
  if (sid !== null) return sid
  if (originJti !== null) return `origin_jti ${originJti}`
  return authTime === undefined ? null : `auth_time ${authTime}`
}

/** Whether the user has entered the password again since what is recorded: some providers keep the `sid` then. */
export const isAnother = (authTime: number | undefined, recorded: Pick<RecordedSignIn, 'authTime'>): boolean =>
  authTime !== undefined && authTime > (recorded.authTime ?? Number.NEGATIVE_INFINITY)

/**
 * Whether the sign-in of a token has ended: with all of the user's, or by itself. Tokens count in whole seconds: one from
 * the second of the end counts as older.
 */
export function isEnded({ authTime, issuedAt }: TokenAge, { notBefore, signIn }: SignOuts): boolean {
  const signedInAt = timeOf({ authTime, issuedAt }, signIn)
  if (signedInAt < notBefore && (signIn?.sparedUntil ?? Number.NEGATIVE_INFINITY) < notBefore) return true
  if (!signIn || signIn.endedAt === null) return false
  // A later sign-in has taken the name, and nothing in this token says that it belongs to it.
  if (authTime === undefined && !signIn.isWitnessed) return true
  // Where the provider's clock is ahead, a sign-in can have ended before its own `auth_time`.
  const isOfEnded = authTime !== undefined && signIn.endedAuthTime !== null && authTime <= signIn.endedAuthTime
  return isOfEnded || signedInAt <= signIn.endedAt
}

/**
 * When the sign-in of a token began. `auth_time` says it; without one the sign-in as recorded, and without that the token
 * itself, which a refresh makes younger.
 */
function timeOf({ authTime, issuedAt }: TokenAge, recorded: RecordedSignIn | null): number {
  const said = authTime ?? issuedAt
  if (!recorded || isAnother(authTime, recorded)) return said
  // A provider whose clock is behind would date a new sign-in before the sign-out that it followed.
  if (recorded.isWitnessed && (authTime ?? recorded.authTime) === recorded.authTime) return recorded.since
  // No sign-in is younger than its first token here. Where the provider's clock is ahead, `auth_time` alone would put
  // the sign-in after a sign-out of the next seconds, and its refreshed tokens would be accepted for ever.
  return Math.min(said, recorded.since)
}

/**
 * How long a refresh token that was used gets the same answer again: two tabs, or an answer that was lost. Longer than
 * the minute that a phone may wait for an answer before it asks again.
 */
export const GRACE_SECONDS = 90

export type RefreshTokenState = 'new' | 'refreshing' | 'answered' | 'reused'

/** What to do with a refresh token, by what is known of it. Unix seconds of one clock. */
export function stateOfRefreshToken(
  known: { refreshingUntil: number | null; usedAt: number | null } | undefined,
  now: number,
): RefreshTokenState {
  if (!known) return 'new'
  if (known.usedAt !== null) return now - known.usedAt <= GRACE_SECONDS ? 'answered' : 'reused'
  return known.refreshingUntil !== null && known.refreshingUntil > now ? 'refreshing' : 'new'
}

const FLOOR_MS = 1000

/**
 * How much longer a refused sign-in takes, of which so much time has passed: a second in all, so that what the provider does
 * for an account that exists does not show. Steps would make a small difference a large one at their edges.
 */
export const paddingOf = (passedMs: number): number => Math.max(0, FLOOR_MS - passedMs)
