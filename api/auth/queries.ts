import { and, eq, sql } from 'drizzle-orm'
import type { JSONWebKeySet } from 'jose'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { sessions } from '../db/schema/sessions.ts'
import { jwksCache } from '../db/schema/signing-keys.ts'
import { users } from '../db/schema/users.ts'
import type { SignOuts } from './policy.ts'
import type { Claims } from './verify-token.ts'

export interface UserState extends SignOuts {
  email: string | null
  displayName: string | null
  locale: string | null
  /** Whether a token of the sign-in was seen within a day; null where it is not recorded. */
  sessionSeenToday: boolean | null
  /** The database's clock, which also dates the sign-outs. Unix seconds. */
  now: number
}

const state = {
  email: users.email,
  displayName: users.displayName,
  locale: users.locale,
  notBefore: sql<number>`extract(epoch from ${users.tokensNotBefore})::float8`,
  sessionSince: sql<number | null>`extract(epoch from ${sessions.firstSeenAt})::float8`,
  sessionSeenToday: sql<boolean | null>`${sessions.lastSeenAt} > now() - interval '1 day'`,
  now: sql<number>`extract(epoch from now())::float8`,
}

/** A user, and one of their recorded sign-ins (`signInOf`). */
export async function findUser(tx: Tx, id: Uuid, signIn: string | null): Promise<UserState | undefined> {
  const [row] = await tx
    .select(state)
    .from(users)
    .leftJoin(sessions, and(eq(sessions.userId, users.id), eq(sessions.sid, signIn ?? '')))
    .where(eq(users.id, id))
  return row
}

type UserClaims = Pick<Claims, 'userId' | 'issuer' | 'subject' | 'email' | 'displayName' | 'issuedAt'> &
  Partial<Pick<Claims, 'locale'>>

/** Inserts the row of a new user, or updates it from a token that is newer than its last change. */
export async function upsertUser(tx: Tx, claims: UserClaims): Promise<void> {
  const { userId: id, issuer, subject, email, displayName, locale, issuedAt } = claims
  await tx
    .insert(users)
    .values({
      id,
      issuer,
      subject,
      email: email ?? null,
      displayName: displayName ?? null,
      locale: locale ?? null,
      tokensNotBefore: '-infinity',
    })
    .onConflictDoUpdate({
      target: users.id,
      set: {
        issuer,
        subject,
        ...(email !== undefined && { email }),
        ...(displayName !== undefined && { displayName }),
        ...(locale !== undefined && { locale }),
        updatedAt: sql`now()`,
      },
      // Two valid tokens of one user may differ: the newer is right.
      setWhere: sql`${users.updatedAt} < to_timestamp(${issuedAt})`,
    })
}

/** Records a token of this sign-in, which is as old as the oldest of its tokens that was ever seen. */
export async function upsertSession(tx: Tx, o: { userId: Uuid; signIn: string; since: number }): Promise<void> {
  await tx
    .insert(sessions)
    // Not later than now, even if the provider's clock is ahead: a later sign-out must find the sign-in older.
    .values({ userId: o.userId, sid: o.signIn, firstSeenAt: sql`least(now(), to_timestamp(${o.since}))` })
    .onConflictDoUpdate({
      target: [sessions.userId, sessions.sid],
      set: {
        firstSeenAt: sql`least(${sessions.firstSeenAt}, excluded.first_seen_at)`,
        lastSeenAt: sql`now()`,
      },
    })
}

/**
 * Deletes sessions without a token for 400 days: their refresh tokens must have expired by then, or a session that a
 * sign-out has ended would reappear as a new one. Returns how many; call again while it returns `batch`.
 */
export async function deleteOldSessions(tx: Tx, batch: number): Promise<number> {
  const old = sql`select ctid from ${sessions} where ${sessions.lastSeenAt} < now() - interval '400 days' limit ${batch}`
  const { rowCount } = await tx.execute(sql`delete from ${sessions} where ctid = any(array(${old}))`)
  return rowCount ?? 0
}

/** From now on every token of an earlier sign-in is refused, including tokens that its session is refreshed to. */
export async function endSignIns(tx: Tx, id: Uuid): Promise<void> {
  // Of two concurrent sign-outs the later time stands, whichever commits last.
  const tokensNotBefore = sql`greatest(${users.tokensNotBefore}, now())`
  await tx.update(users).set({ tokensNotBefore, updatedAt: sql`now()` }).where(eq(users.id, id))
}

export async function loadKeys(tx: Tx, issuer: string): Promise<{ jwks: unknown; fetchedAt: Date } | undefined> {
  const [row] = await tx.select().from(jwksCache).where(eq(jwksCache.issuer, issuer))
  return row
}

export async function saveKeys(tx: Tx, issuer: string, jwks: JSONWebKeySet, fetchedAt: Date): Promise<void> {
  await tx
    .insert(jwksCache)
    .values({ issuer, jwks, fetchedAt })
    .onConflictDoUpdate({ target: jwksCache.issuer, set: { jwks, fetchedAt } })
}
