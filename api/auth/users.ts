import type { Id, Uuid } from '../../lib/contract/ids.ts'
import type { Clock } from '../../lib/runtime/clock.ts'
import type { Database, Tx } from '../db/db.ts'
import { isAnother, isEnded } from './policy.ts'
import { findUser, type UserState, upsertUser } from './queries.ts'
import { type SeenSignIn, upsertSession } from './session-queries.ts'
import type { Claims } from './verify-token.ts'

/** Every revocation drops what is cached of its user, so it may be old. */
const FRESH_MS = 60_000
/** The same for a token that says something else: of two that differ, the older one stays different. */
const FRESH_FOR_OTHERS_MS = 5000
const MOST = 10_000
const MOST_SIGN_INS = 1000

/** What is known of a token's user and sign-in. */
export interface Known {
  isEnded: boolean
  /** The account is closed, which ended a sign-in that had not ended before by itself. */
  isClosed: boolean
  /** Null where nothing in the token tells its sign-in from others. */
  sessionId: Id<'session'> | null
}

/** The users of the tokens, and their sign-ins. */
export interface Users {
  /**
   * From the cache while every revocation is known here, else from the database. The first token of a user or of a
   * sign-in inserts the row.
   */
  know(claims: Claims, ip: string): Promise<Known>
  /** Whether a user of whom there is no row was erased: see `UsersOptions`. */
  isErased(tx: Tx, userId: Uuid): Promise<boolean>
  /** After a sign-out: drops the cached state of this user, or of all. */
  forget(id?: Uuid): void
}

export interface UsersOptions {
  db: Database
  clock: Clock
  /** Whether the cache can be believed: see `Revocations`. */
  isCurrent(): boolean
  /** Whether a user of whom there is no row was erased, and the row lost with a restored backup. */
  isErased(tx: Tx, userId: Uuid): Promise<boolean>
}

/**
 * Whether the closing of the account has ended the sign-in, which had not been signed out before. That cannot be told any more
 * once the erasure has deleted the sign-ins.
 */
const isClosedWith = ({ closedAt, signIn }: UserState): boolean =>
  closedAt !== null && (signIn === null || signIn.endedAt === null || signIn.endedAt >= closedAt)

export function openUsers({ db, clock, isCurrent, isErased }: UsersOptions): Users {
  // A Map keeps the order of insertion: the first entry is always the oldest.
  const seen = new Map<Uuid, Map<string | null, { at: number; state: Promise<UserState> }>>()

  async function look(claims: Claims, ip: string): Promise<UserState> {
    const known = await db.read({}, (tx) => findUser(tx, claims.userId, claims.signIn))
    if (known && !changesUser(claims, known) && !changesSignIn(claims, known)) return known
    // That a sign-in has ended is recorded, and nothing of where it was used.
    const isOver = known !== undefined && isEnded(claims, known)
    return db.inTransaction({}, (tx) => record({ isErased }, tx, claims, isOver ? {} : { ip }))
  }

  function signInsOf(userId: Uuid): Map<string | null, { at: number; state: Promise<UserState> }> {
    const known = seen.get(userId)
    if (known) return known
    const oldest = seen.size >= MOST ? seen.keys().next().value : undefined
    if (oldest !== undefined) seen.delete(oldest)
    const signIns = new Map<string | null, { at: number; state: Promise<UserState> }>()
    seen.set(userId, signIns)
    return signIns
  }

  async function cached(claims: Claims, ip: string): Promise<UserState> {
    const signIns = signInsOf(claims.userId)
    const hit = signIns.get(claims.signIn)
    const age = hit ? Math.abs(clock.now().getTime() - hit.at) : Number.POSITIVE_INFINITY
    if (hit && age < FRESH_MS) {
      const state = await hit.state
      if (age < FRESH_FOR_OTHERS_MS || (!changesUser(claims, state) && !changesSignIn(claims, state))) return state
    }
    const made = { at: clock.now().getTime(), state: look(claims, ip) }
    if (signIns.size >= MOST_SIGN_INS) signIns.clear()
    signIns.set(claims.signIn, made)
    // Failures are not cached: the next request reads again.
    made.state.catch(() => {
      if (signIns.get(claims.signIn) === made) signIns.delete(claims.signIn)
    })
    return made.state
  }

  return {
    async know(claims, ip) {
      const state = await (isCurrent() ? cached(claims, ip) : look(claims, ip))
      return {
        isEnded: isEnded(claims, state),
        isClosed: isClosedWith(state),
        sessionId: state.signIn?.id ?? null,
      }
    },
    isErased,
    forget: (id) => (id === undefined ? seen.clear() : void seen.delete(id)),
  }
}

/** Records the user and the sign-in of a token, and returns what is known of them then. */
export async function record(
  { isErased }: Pick<Users, 'isErased'>,
  tx: Tx,
  claims: Claims,
  more: Pick<SeenSignIn, 'ip' | 'deviceId' | 'deviceName' | 'isWitnessed' | 'refreshFor'>,
): Promise<UserState> {
  const { userId, signIn } = claims
  const find = () => findUser(tx, userId, signIn)
  const known = await find()
  if (!known && (await isErased(tx, userId))) return ERASED
  if (!known || changesUser(claims, known)) await upsertUser(tx, claims)
  if (signIn !== null && (more.isWitnessed || !known || changesSignIn(claims, known))) {
    await upsertSession(tx, {
      ...more,
      userId,
      signIn,
      since: claims.authTime ?? claims.issuedAt,
      authTime: claims.authTime,
      logoutSid: claims.sid,
      byRefresh: claims.isNamedByIdToken === true,
    })
  }
  const state = await find()
  if (state) return state
  throw new Error('a user row vanished while it was being read')
}

/** Every sign-in has ended. */
const ERASED: UserState = {
  ...{ email: null, phoneNumber: null, displayName: null, locale: null, closedAt: null },
  ...{ notBefore: Number.POSITIVE_INFINITY, signIn: null },
}

const changesUser = (claims: Claims, user: UserState) =>
  (claims.email !== undefined && claims.email !== user.email) ||
  (claims.phoneNumber !== undefined && claims.phoneNumber !== user.phoneNumber) ||
  (claims.displayName !== undefined && claims.displayName !== user.displayName) ||
  (claims.locale !== undefined && claims.locale !== user.locale)

/**
 * True for a sign-in that is new here, that the user has repeated, or that access tokens now name or no longer name; for an
 * older token than before, and for the first in a day.
 */
function changesSignIn(claims: Claims, { signIn }: UserState): boolean {
  if (claims.signIn === null) return false
  if (!signIn || signIn.id === null) return true
  if (isAnother(claims.authTime, signIn) || signIn.isByRefresh !== (claims.isNamedByIdToken === true)) return true
  const isOlder = !signIn.isWitnessed && (claims.authTime ?? claims.issuedAt) < signIn.since
  return isOlder || !signIn.isSeenToday
}
