import { signedIn } from '../permissions/facts.ts'
import { onCaller } from '../permissions/rule.ts'

export const authActions = {
  'session.end_all': onCaller('sign out on all devices', signedIn),
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
  /** When the session of the token was first seen; null if it is unknown or the token names none. */
  sessionSince: number | null
}

/**
 * Whether a sign-out has ended the sign-in of a token. `auth_time` is the time of the sign-in. Without it the age of
 * the session counts, and without a session the age of the token itself, which a refresh resets. Tokens count in whole
 * seconds: a token from the second of the sign-out counts as older.
 */
export function isEnded({ authTime, issuedAt }: TokenAge, { notBefore, sessionSince }: SignOuts): boolean {
  const signedInAt = authTime ?? Math.min(issuedAt, sessionSince ?? issuedAt)
  return signedInAt < notBefore
}
