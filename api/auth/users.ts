import type { Uuid } from '../../lib/contract/ids.ts'
import type { Clock } from '../../lib/runtime/clock.ts'
import type { Database, Tx } from '../db/db.ts'
import { isEnded, isRecorded, signInOf } from './policy.ts'
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
  /** After a sign-out: drops the cached state of this user, or of all. */
  forget(id?: Uuid): void
}

/** `isErased`: whether a user of whom there is no row was erased, and the row lost with a restored backup. */
export function openUsers(db: Database, clock: Clock, isErased: (tx: Tx, userId: Uuid) => Promise<boolean>): Users {
  // A Map keeps the order of insertion: the first entry is always the oldest.
  const seen = new Map<Uuid, { at: number; signIns: Map<string | null, Promise<UserState>> }>()

  async function look(claims: Claims): Promise<UserState> {
    const { userId } = claims
    const signIn = nameOf(claims)
    const known = await db.read({}, (tx) => findUser(tx, userId, signIn))
    if (known && !changesUser(claims, known) && !changesSession(claims, known)) return known
    return db.inTransaction({}, async (tx) => {
      const find = async () => {
        const user = await findUser(tx, userId, signIn)
        if (user) return user
        throw new Error('a user row vanished while it was being read')
      }
      if (!known && (await isErased(tx, userId))) return ERASED
      if (!known || changesUser(claims, known)) await upsertUser(tx, claims)
      const user = known ?? (await find())
      if (signIn !== null && changesSession(claims, user)) {
        await upsertSession(tx, { userId, signIn, since: sinceOf(claims) })
      }
      return find()
    })
  }

  function signInsOf(userId: Uuid): Map<string | null, Promise<UserState>> {
    const now = clock.now().getTime()
    const hit = seen.get(userId)
    if (hit && now - hit.at < FRESH_MS) return hit.signIns
    seen.delete(userId)
    const oldest = seen.size >= MOST ? seen.keys().next().value : undefined
    if (oldest !== undefined) seen.delete(oldest)
    const signIns = new Map<string | null, Promise<UserState>>()
    seen.set(userId, { at: now, signIns })
    return signIns
  }

  function cached(claims: Claims): Promise<UserState> {
    const signIns = signInsOf(claims.userId)
    const signIn = nameOf(claims)
    const hit = signIns.get(signIn)
    if (hit) return hit
    const state = look(claims)
    signIns.set(signIn, state)
    // Failures are not cached: the next request reads again.
    state.catch(() => signIns.delete(signIn))
    return state
  }

  return {
    isRevoked: async (claims) => isEnded(claims, await cached(claims)),
    isRevokedNow: async (claims) => isEnded(claims, await look(claims)),
    forget: (id) => (id === undefined ? seen.clear() : void seen.delete(id)),
  }
}

/** Every sign-in has ended. */
const ERASED: UserState = {
  ...{ email: null, phoneNumber: null, displayName: null, locale: null },
  ...{ notBefore: Number.POSITIVE_INFINITY, sessionSince: null, sessionSeenToday: null, now: 0 },
}

const changesUser = (claims: Claims, user: UserState) =>
  (claims.email !== undefined && claims.email !== user.email) ||
  (claims.phoneNumber !== undefined && claims.phoneNumber !== user.phoneNumber) ||
  (claims.displayName !== undefined && claims.displayName !== user.displayName) ||
  (claims.locale !== undefined && claims.locale !== user.locale)

/** True for a sign-in to record that is new, an older token than before, or the first token in a day. */
const changesSession = (claims: Claims, { sessionSince, sessionSeenToday, now }: UserState) =>
  sessionSince === null
    ? isRecorded(claims, claims.sessionId, now)
    : sinceOf(claims) < sessionSince || !sessionSeenToday

const nameOf = (claims: Claims) => signInOf(claims, claims.sessionId)
const sinceOf = ({ authTime, issuedAt }: Claims) => authTime ?? issuedAt
