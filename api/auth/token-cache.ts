import { hash } from 'node:crypto'
import type { Claims, VerifierOptions } from './verify-token.ts'
import { verifyToken } from './verify-token.ts'

const MOST = 10_000

/**
 * Verifies like `verifyToken`, but checks the signature of a token only once while the keys are unchanged: an app sends
 * one token with hundreds of requests. The caller must check every time whether the sign-in has ended.
 */
export function tokenCache(o: VerifierOptions): (token: string) => Promise<Claims> {
  // By hash, so that memory holds no usable token. A Map keeps the order of insertion: the first entry is the oldest.
  const known = new Map<string, { claims: Claims; since: number }>()
  let keys: unknown

  return async (token) => {
    const now = Math.floor(o.clock.now().getTime() / 1000)
    const current = o.keys.current()
    // The tokens of a withdrawn key are invalid, and without keys no token can be verified.
    if (current !== keys) known.clear()
    keys = current
    const id = hash('sha256', token, 'base64')
    const hit = known.get(id)
    if (hit && now >= hit.since && now < hit.claims.validUntil) return hit.claims
    known.delete(id)
    const claims = await verifyToken(token, o)
    // If the keys have changed in the meantime, the next request fills the cache.
    if (current === undefined || o.keys.current() !== current || keys !== current) return claims
    const oldest = known.size >= MOST ? known.keys().next().value : undefined
    if (oldest !== undefined) known.delete(oldest)
    known.set(id, { claims, since: now })
    return claims
  }
}
