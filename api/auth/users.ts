import type { Uuid } from '../../lib/contract/ids.ts'
import type { Clock } from '../../lib/runtime/clock.ts'
import type { Database } from '../db/db.ts'
import { findUser, type UserState, upsertUser } from './queries.ts'
import type { Claims } from './verify-token.ts'

const FRESH_MS = 5000
const MOST = 10_000

/** The people behind the tokens. */
export interface Users {
  /** Whether this sign-in has been ended. What is known is at most five seconds old; a first sight makes the row. */
  isRevoked(claims: Claims): Promise<boolean>
  /** The same by the database's word of now. */
  isRevokedNow(claims: Claims): Promise<boolean>
  /** After a sign-out on this server: ask the database again. */
  forget(id: Uuid): void
}

export function openUsers(db: Database, clock: Clock): Users {
  // A Map keeps the order of insertion: the first entry is always the oldest.
  const seen = new Map<Uuid, { at: number; state: Promise<UserState> }>()

  async function look(claims: Claims): Promise<UserState> {
    const known = await db.read({}, (tx) => findUser(tx, claims.userId))
    if (known && !isNews(claims, known)) return known
    const made = await db.inTransaction({}, (tx) => upsertUser(tx, claims))
    if (!made) throw new Error('a user row vanished while it was being read')
    return made
  }

  function cached(claims: Claims): Promise<UserState> {
    const now = clock.now().getTime()
    const hit = seen.get(claims.userId)
    if (hit && now - hit.at < FRESH_MS) return hit.state
    seen.delete(claims.userId)
    const oldest = seen.size >= MOST ? seen.keys().next().value : undefined
    if (oldest !== undefined) seen.delete(oldest)
    const entry = { at: now, state: look(claims) }
    seen.set(claims.userId, entry)
    // A failure is not knowledge: the next request asks again.
    entry.state.catch(() => {
      if (seen.get(claims.userId) === entry) seen.delete(claims.userId)
    })
    return entry.state
  }

  return {
    isRevoked: async (claims) => isOver(claims, await cached(claims)),
    isRevokedNow: async (claims) => isOver(claims, await look(claims)),
    forget: (id) => void seen.delete(id),
  }
}

/** Tokens count in whole seconds: one of the very second of the sign-out is taken for older, never for newer. */
const isOver = (claims: Claims, user: UserState) => claims.signedInAt < user.notBefore

const isNews = (claims: Claims, user: UserState) =>
  (claims.email !== undefined && claims.email !== user.email) ||
  (claims.displayName !== undefined && claims.displayName !== user.displayName)
