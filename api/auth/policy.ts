import { signedIn } from '../permissions/facts.ts'
import { onCaller } from '../permissions/rule.ts'

export const authActions = {
  'session.end_all': onCaller('sign out on all devices', signedIn),
} as const

/** What a token says of its age. Unix seconds. */
export interface TokenAge {
  /** When the user signed in (`auth_time`); undefined when the token does not say. A refresh does not change it. */
  authTime: number | undefined
  issuedAt: number
}

/** What the database knows. Unix seconds. */
export interface SignOuts {
  /** When the user last signed out everywhere; minus infinity before the first time. */
  notBefore: number
  /** Since when the session of the token is known; null when it is not, or when the token names none. */
  sessionSince: number | null
}

/**
 * Whether a sign-out has ended the sign-in that a token comes from. `auth_time` says when that was. Where it is missing,
 * a token is as old as its session, and without a session as old as itself: then a refresh makes it young again.
 * Tokens count in whole seconds: one from the very second of the sign-out is taken for older.
 */
export function isEnded({ authTime, issuedAt }: TokenAge, { notBefore, sessionSince }: SignOuts): boolean {
  const signedInAt = authTime ?? Math.min(issuedAt, sessionSince ?? issuedAt)
  return signedInAt < notBefore
}
