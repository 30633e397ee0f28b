import { hash } from 'node:crypto'
import type { Claims, VerifierOptions } from './verify-token.ts'
import { verifyToken } from './verify-token.ts'

const MOST = 10_000

/**
 * Verifies as `verifyToken` does, but the signature of a token only once while the keys stay the same: an app sends one
 * token with hundreds of requests. Whether the sign-in has ended is not asked here, and must be asked every time.
 */
export function tokenCache(o: VerifierOptions): (token: string) => Promise<Claims> {
  // By hash: what lies in memory should open nothing. A Map keeps the order of insertion: the first is the oldest.
  const known = new Map<string, { claims: Claims; since: number }>()
  let keys: unknown

  return async (token) => {
    const now = Math.floor(o.clock.now().getTime() / 1000)
    const current = o.keys.current()
    // A key that the provider has withdrawn takes its tokens with it, and without keys nothing is known of any token.
    if (current !== keys) known.clear()
    keys = current
    const id = hash('sha256', token, 'base64')
    const hit = known.get(id)
    if (hit && now >= hit.since && now < hit.claims.validUntil) return hit.claims
    known.delete(id)
    const claims = await verifyToken(token, o)
    // The keys may have been exchanged in the meantime: then it is the next request that remembers.
    if (current === undefined || o.keys.current() !== current || keys !== current) return claims
    const oldest = known.size >= MOST ? known.keys().next().value : undefined
    if (oldest !== undefined) known.delete(oldest)
    known.set(id, { claims, since: now })
    return claims
  }
}
