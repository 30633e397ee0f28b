import type { JSONWebKeySet } from 'jose'
import type { Id, Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { and, eq, sql } from '../db/orm.ts'
import { sessions } from '../db/schema/sessions.ts'
import { jwksCache } from '../db/schema/signing-keys.ts'
import { users } from '../db/schema/users.ts'
import type { RecordedSignIn, SignOuts } from './policy.ts'
import type { Claims } from './verify-token.ts'

export interface UserState extends SignOuts {
  email: string | null
  phoneNumber: string | null
  displayName: string | null
  locale: string | null
  /** When the account was closed; Unix seconds. */
  closedAt: number | null
  signIn: (RecordedSignIn & { id: Id<'session'> | null; isSeenToday: boolean; isByRefresh: boolean }) | null
}

const epoch = <T>(column: unknown) => sql<T>`extract(epoch from ${column})::float8`

const state = {
  email: users.email,
  phoneNumber: users.phoneNumber,
  displayName: users.displayName,
  locale: users.locale,
  notBefore: epoch<number>(users.tokensNotBefore),
  closedAt: epoch<number | null>(users.closedAt),
  sessionId: sessions.id,
  since: epoch<number | null>(sessions.firstSeenAt),
  authTime: sessions.authTime,
  isWitnessed: sessions.witnessed,
  isByRefresh: sessions.byRefresh,
  endedAt: epoch<number | null>(sessions.endedAt),
  endedAuthTime: sessions.endedAuthTime,
  sparedUntil: epoch<number | null>(sessions.sparedUntil),
  isSeenToday: sql<boolean | null>`${sessions.lastSeenAt} > now() - interval '1 day'`,
}

/** A user, and one of their sign-ins (`signInOf`). */
export async function findUser(tx: Tx, id: Uuid, signIn: string | null): Promise<UserState | undefined> {
  const [row] = await tx
    .select(state)
    .from(users)
    .leftJoin(sessions, and(eq(sessions.userId, users.id), eq(sessions.sid, signIn ?? '')))
    .where(eq(users.id, id))
  if (!row) return undefined
  const { email, phoneNumber, displayName, locale, notBefore, closedAt, since, sessionId, ...rest } = row
  const { isSeenToday, isWitnessed, isByRefresh, ...times } = rest
  return {
    ...{ email, phoneNumber, displayName, locale, notBefore, closedAt },
    signIn:
      since === null
        ? null
        : {
            ...{ ...times, since, id: sessionId, isWitnessed: isWitnessed === true },
            ...{ isByRefresh: isByRefresh === true, isSeenToday: isSeenToday === true },
          },
  }
}

type UserClaims = Pick<Claims, 'userId' | 'issuer' | 'subject' | 'email' | 'displayName' | 'issuedAt'> &
  Partial<Pick<Claims, 'locale' | 'phoneNumber'>>

/** Inserts the row of a new user, or updates it from a token that is newer than its last change. */
export async function upsertUser(tx: Tx, claims: UserClaims): Promise<void> {
  const { userId: id, issuer, subject, email, phoneNumber, displayName, locale, issuedAt } = claims
  await tx
    .insert(users)
    .values({
      id,
      issuer,
      subject,
      email: email ?? null,
      phoneNumber: phoneNumber ?? null,
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
        ...(phoneNumber !== undefined && { phoneNumber }),
        ...(displayName !== undefined && { displayName }),
        ...(locale !== undefined && { locale }),
        updatedAt: sql`now()`,
      },
      // Two valid tokens of one user may differ: the newer is right.
      setWhere: sql`${users.updatedAt} < to_timestamp(${issuedAt})`,
    })
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
