import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { asc, eq, sql } from '../../db/orm.ts'
import { prepared } from '../../db/prepared.ts'
import { memberships, organizations } from '../../db/schema/organizations.ts'
import { users } from '../../db/schema/users.ts'
import type { Usage } from './policy.ts'

const user = sql.placeholder('user')
/** In the organizations of which the user is a member. A user without a row has never stored anything. */
const usage = {
  storedBytes: sql<number>`coalesce(stored.stored_bytes, 0)`.mapWith(Number),
  openUploads: sql<number>`coalesce(stored.open_uploads, 0)`.mapWith(Number),
}

/** Undefined for a user without a row; the first sign-in inserts it. */
export async function findAccount(tx: Tx, userId: Uuid) {
  const [row] = await prepared(tx, 'find_account', { user: userId }, () =>
    tx
      .select({ displayName: users.displayName, email: users.email, ...usage })
      .from(users)
      .leftJoin(sql`storage_of(${user}::uuid) stored`, sql`true`)
      .where(eq(users.id, user)),
  )
  return row
}

/** Call in a transaction in the scope of this user: row-level security hides all other organizations. */
export async function listOwnOrganizations(tx: Tx, userId: Uuid) {
  return prepared(tx, 'list_own_organizations', { user: userId }, () =>
    tx
      .select({
        orgId: memberships.orgId,
        name: organizations.name,
        role: memberships.role,
        joinedAt: memberships.joinedAt,
      })
      .from(memberships)
      .innerJoin(organizations, eq(organizations.id, memberships.orgId))
      .where(eq(memberships.userId, user))
      .orderBy(asc(memberships.joinedAt), asc(memberships.orgId)),
  )
}

/**
 * Exact after a change of the user's storage in the same transaction: the change locks the user's counters until the
 * commit, and has waited for the transactions that changed them before.
 */
export async function findUsage(tx: Tx, userId: Uuid): Promise<Usage> {
  const [row] = await prepared(tx, 'find_usage', { user: userId }, () =>
    tx.select(usage).from(sql`storage_of(${user}::uuid) stored`),
  )
  return row ?? { storedBytes: 0, openUploads: 0 }
}

/** A user and one organization that they share with the caller. */
export interface SharedRow {
  userId: Uuid
  displayName: string | null
  orgId: Uuid
  orgName: string
}

// The functions of migration 0011 find what row-level security hides from the caller. They know the caller from the
// scope of the transaction, so all of these need one in the scope of the user.
const sharedColumns = sql`u.id as "userId", u.display_name as "displayName", o.id as "orgId", o.name as "orgName"`

export async function findSharedOrganizations(tx: Tx, userId: Uuid): Promise<SharedRow[]> {
  const { rows } = await tx.execute<SharedRow & Record<string, unknown>>(sql`
    select ${sharedColumns} from shared_organizations(${userId}::uuid) shared
      join users u on u.id = ${userId}::uuid join organizations o on o.id = shared.org_id
      order by shared.joined_at, shared.org_id`)
  return rows
}

/** The users after this one in order of id, at most `limit`; one row for each organization that they share. */
export async function listConnectedMembers(tx: Tx, o: { after: Uuid; limit: number }): Promise<SharedRow[]> {
  const { rows } = await tx.execute<SharedRow & Record<string, unknown>>(sql`
    select ${sharedColumns} from connected_members(${o.after}::uuid, ${o.limit}::integer) shared
      join users u on u.id = shared.user_id join organizations o on o.id = shared.org_id
      order by shared.user_id, shared.joined_at, shared.org_id`)
  return rows
}

export async function countConnectedMembers(tx: Tx): Promise<number> {
  const { rows } = await tx.execute<{ count: string }>(sql`select count_connected_members() as count`)
  return Number(rows[0]?.count)
}
