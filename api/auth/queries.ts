import { eq, sql } from 'drizzle-orm'
import type { JSONWebKeySet } from 'jose'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { jwksCache } from '../db/schema/signing-keys.ts'
import { users } from '../db/schema/users.ts'
import type { Claims } from './verify-token.ts'

export interface UserState {
  email: string | null
  displayName: string | null
  /** Unix seconds; sign-ins before this moment are over. Minus infinity where nobody ever signed out. */
  notBefore: number
}

const state = {
  email: users.email,
  displayName: users.displayName,
  notBefore: sql<number>`extract(epoch from ${users.tokensNotBefore})::float8`,
}

export async function findUser(tx: Tx, id: Uuid): Promise<UserState | undefined> {
  const [row] = await tx.select(state).from(users).where(eq(users.id, id))
  return row
}

type UserClaims = Pick<Claims, 'userId' | 'issuer' | 'subject' | 'email' | 'displayName' | 'issuedAt'>

/** Makes the row of somebody seen for the first time, or brings it up to date from a token newer than its last change. */
export async function upsertUser(tx: Tx, claims: UserClaims): Promise<UserState | undefined> {
  const { userId: id, issuer, subject, email, displayName, issuedAt } = claims
  await tx
    .insert(users)
    .values({
      id,
      issuer,
      subject,
      email: email ?? null,
      displayName: displayName ?? null,
      tokensNotBefore: '-infinity',
    })
    .onConflictDoUpdate({
      target: users.id,
      set: {
        issuer,
        subject,
        email: sql`coalesce(${email ?? null}, ${users.email})`,
        displayName: sql`coalesce(${displayName ?? null}, ${users.displayName})`,
        updatedAt: sql`now()`,
      },
      // Two tokens of one person may disagree for as long as the older lives: the newer is right.
      setWhere: sql`${users.updatedAt} < to_timestamp(${issuedAt})`,
    })
  return findUser(tx, id)
}

/** From this moment every token of an earlier sign-in is refused. */
export async function endSignIns(tx: Tx, id: Uuid): Promise<void> {
  await tx.update(users).set({ tokensNotBefore: sql`now()`, updatedAt: sql`now()` }).where(eq(users.id, id))
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
