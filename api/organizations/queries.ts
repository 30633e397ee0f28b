import { and, eq, sql } from 'drizzle-orm'
import { newUuid, type Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { prepared } from '../db/prepared.ts'
import { memberships, organizations } from '../db/schema/organizations.ts'
import { users } from '../db/schema/users.ts'
import type { Role } from './policy.ts'

export interface Member {
  orgId: Uuid
  userId: Uuid
  role: Role
}

/** The membership of a user. Looked up per request, so that the end of a membership takes effect immediately. */
export async function findMembership(tx: Tx, orgId: Uuid, userId: Uuid): Promise<Member | undefined> {
  const query = prepared(tx, 'find_membership', (name) =>
    tx
      .select({ orgId: memberships.orgId, userId: memberships.userId, role: memberships.role })
      .from(memberships)
      .where(and(eq(memberships.orgId, sql.placeholder('org')), eq(memberships.userId, sql.placeholder('user'))))
      .prepare(name),
  )
  const [row] = await query.execute({ org: orgId, user: userId })
  return row
}

/**
 * Whether the user is still a member; if so, the membership cannot end before this transaction does. For a transaction
 * that records what ends with the membership. Call it last: the membership comes last in the lock order.
 */
export async function holdMembership(tx: Tx, orgId: Uuid, userId: Uuid): Promise<boolean> {
  const held = await tx
    .select({ userId: memberships.userId })
    .from(memberships)
    .where(and(eq(memberships.orgId, orgId), eq(memberships.userId, userId)))
    .for('share')
  return held.length > 0
}

export async function insertOrganization(tx: Tx, name: string): Promise<Uuid> {
  const id = newUuid()
  await tx.insert(organizations).values({ id, name })
  return id
}

/** Locks the organization until the transaction ends, so that changes of its members are serialized. */
export async function lockOrganization(tx: Tx, id: Uuid): Promise<{ name: string } | undefined> {
  const [row] = await tx
    .select({ name: organizations.name })
    .from(organizations)
    .where(eq(organizations.id, id))
    .for('update')
  return row
}

export async function countOwners(tx: Tx, orgId: Uuid): Promise<number> {
  return tx.$count(memberships, and(eq(memberships.orgId, orgId), eq(memberships.role, 'owner')))
}

export async function insertMembership(tx: Tx, member: Member): Promise<void> {
  await tx.insert(memberships).values(member)
}

export async function updateRole(tx: Tx, { orgId, userId, role }: Member): Promise<void> {
  await tx
    .update(memberships)
    .set({ role })
    .where(and(eq(memberships.orgId, orgId), eq(memberships.userId, userId)))
}

export async function findUserById(tx: Tx, id: Uuid): Promise<Uuid | undefined> {
  const [row] = await tx.select({ id: users.id }).from(users).where(eq(users.id, id))
  return row?.id
}

/** E-mail addresses are not unique: two identity providers may have the same one. */
export async function findUsersByEmail(tx: Tx, email: string): Promise<Uuid[]> {
  const rows = await tx
    .select({ id: users.id })
    .from(users)
    .where(eq(sql`lower(${users.email})`, email.toLowerCase()))
    .limit(2)
  return rows.map((r) => r.id)
}

/** Inserts the row that the first sign-in of the user will find; no effect if it exists. */
export async function ensureUser(tx: Tx, user: { id: Uuid; issuer: string; subject: string }): Promise<void> {
  await tx
    .insert(users)
    .values({ ...user, tokensNotBefore: '-infinity' })
    .onConflictDoNothing()
}
