import type { Id, Uuid } from '../../lib/contract/ids.ts'

export interface SignIn {
  /** The name under which it is recorded. */
  name: string | null
  /** Unix seconds, as in the token. */
  authTime: number | undefined
  issuedAt: number
}

/** The caller, built once per request from the verified token. Membership is looked up per request, not cached here. */
export interface Actor {
  userId: Uuid
  /** ROLE_ADMIN in the token. */
  platformAdmin: boolean
  /** The session that the token belongs to; null if nothing in the token tells it from others. */
  sessionId: Id<'session'> | null
  /** The token is refused from this time on. Unix seconds. */
  validUntil?: number
  /** The sign-in of the token, for a change that a sign-out meanwhile has to prevent. */
  signIn?: SignIn
  /** The account is closed: only for an operation that says `closedToo`. */
  isClosed?: true
}
