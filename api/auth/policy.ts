import { signedIn } from '../permissions/facts.ts'
import { onCaller } from '../permissions/rule.ts'

export const sessionActions = {
  endAll: onCaller('session.end_all', 'sign out on all devices', signedIn),
} as const

/** The age of a token. Unix seconds. */
export interface TokenAge {
  /** When the user signed in (`auth_time`); undefined if the token does not tell. A refresh does not change it. */
  authTime: number | undefined
  issuedAt: number
}

/** The sign-outs in the database. Unix seconds. */
export interface SignOuts {
  /** When the user last signed out on all devices; minus infinity before the first time. */
  notBefore: number
  /** When the sign-in of the token was first seen; null where that is not recorded. */
  sessionSince: number | null
}

/**
 * The name under which the first token of a sign-in is recorded; null if the token names none. `auth_time` comes before
 * `sid`: a user who enters the password again keeps the `sid` at some providers.
 */
export const signInOf = ({ authTime }: Pick<TokenAge, 'authTime'>, sid: string | null): string | null =>
  authTime === undefined ? sid : `auth_time ${authTime}`

/** Whether a token has to be recorded at `now`. An `auth_time` that has passed tells the age without a record. */
export const isRecorded = ({ authTime }: Pick<TokenAge, 'authTime'>, sid: string | null, now: number): boolean =>
  authTime === undefined ? sid !== null : authTime > now

/**
 * Whether a sign-out has ended the sign-in of a token. `auth_time` is the time of the sign-in. Without it the age of
 * the session counts, and without a session the age of the token itself, which a refresh resets. Tokens count in whole
 * seconds: a token from the second of the sign-out counts as older.
 */
export function isEnded({ authTime, issuedAt }: TokenAge, { notBefore, sessionSince }: SignOuts): boolean {
  // No sign-in is younger than its first token here. Where the provider's clock is ahead, `auth_time` alone would put
  // the sign-in after a sign-out of the next seconds, and its refreshed tokens would be accepted for ever.
  const signedInAt = Math.min(authTime ?? issuedAt, sessionSince ?? Number.POSITIVE_INFINITY)
  return signedInAt < notBefore
}
