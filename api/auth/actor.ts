import type { Uuid } from '../../lib/contract/ids.ts'

/** Who is asking. Built once per request from the verified token; membership is looked up per request, never cached here. */
export interface Actor {
  userId: Uuid
  /** ROLE_ADMIN in the token. */
  platformAdmin: boolean
  /** Session of the identity provider, when the token names one. */
  sessionId: string | null
}
