import type { Uuid } from '../../lib/contract/ids.ts'
import type { Clock } from '../../lib/runtime/clock.ts'
import type { Database } from '../db/db.ts'
import { isEnded } from './policy.ts'
import { findUser, type UserState, upsertSession, upsertUser } from './queries.ts'
import type { Claims } from './verify-token.ts'

const FRESH_MS = 5000
const MOST = 10_000

/** The users of the tokens. */
export interface Users {
  /** Whether this sign-in has ended, at most five seconds out of date. The first token of a user inserts the row. */
  isRevoked(claims: Claims): Promise<boolean>
  /** The same, read from the database now. */
  isRevokedNow(claims: Claims): Promise<boolean>
  /** After a sign-out on this server: drops the cached state. */
  forget(id: Uuid): void
}

export function openUsers(db: Database, clock: Clock): Users {
  // A Map keeps the order of insertion: the first entry is always the oldest.
  const seen = new Map<Uuid, { at: number; sessions: Map<string | null, Promise<UserState>> }>()

  async function look(claims: Claims): Promise<UserState> {
    const { userId, issuedAt } = claims
    const sid = sidOf(claims)
    const known = await db.read({}, (tx) => findUser(tx, userId, sid))
    if (known && !changesUser(claims, known) && !changesSession(claims, known)) return known
    return db.inTransaction({}, async (tx) => {
      if (!known || changesUser(claims, known)) await upsertUser(tx, claims)
      if (sid !== null) await upsertSession(tx, { userId, sid, issuedAt })
      const made = await findUser(tx, userId, sid)
      if (!made) throw new Error('a user row vanished while it was being read')
      return made
    })
  }

  function sessionsOf(userId: Uuid): Map<string | null, Promise<UserState>> {
    const now = clock.now().getTime()
    const hit = seen.get(userId)
    if (hit && now - hit.at < FRESH_MS) return hit.sessions
    seen.delete(userId)
    const oldest = seen.size >= MOST ? seen.keys().next().value : undefined
    if (oldest !== undefined) seen.delete(oldest)
    const sessions = new Map<string | null, Promise<UserState>>()
    seen.set(userId, { at: now, sessions })
    return sessions
  }

  function cached(claims: Claims): Promise<UserState> {
    const sessions = sessionsOf(claims.userId)
    const sid = sidOf(claims)
    const hit = sessions.get(sid)
    if (hit) return hit
    const state = look(claims)
    sessions.set(sid, state)
    // Failures are not cached: the next request reads again.
    state.catch(() => sessions.delete(sid))
    return state
  }

  return {
    isRevoked: async (claims) => isEnded(claims, await cached(claims)),
    isRevokedNow: async (claims) => isEnded(claims, await look(claims)),
    forget: (id) => void seen.delete(id),
  }
}

const changesUser = (claims: Claims, user: UserState) =>
  (claims.email !== undefined && claims.email !== user.email) ||
  (claims.displayName !== undefined && claims.displayName !== user.displayName)

/** True for a new session, an older token than before, or the first token in a day. */
const changesSession = (claims: Claims, { sessionSince, sessionSeenToday }: UserState) =>
  sidOf(claims) !== null && (sessionSince === null || claims.issuedAt < sessionSince || !sessionSeenToday)

/** The session whose age counts. A token with `auth_time` needs none, and costs no row. */
const sidOf = (claims: Claims) => (claims.authTime === undefined ? claims.sessionId : null)
