import type { Uuid } from '../../lib/contract/ids.ts'
import type { Role } from '../../lib/contract/roles.ts'
import type { Tx } from '../db/db.ts'
import { and, eq, sql } from '../db/orm.ts'
import { prepared } from '../db/prepared.ts'
import { memberships } from '../db/schema/organizations.ts'

export interface Member {
  orgId: Uuid
  userId: Uuid
  role: Role
}

/** The membership of a user. Looked up per request, so that the end of a membership takes effect immediately. */
export async function findMembership(tx: Tx, orgId: Uuid, userId: Uuid): Promise<Member | undefined> {
  const [row] = await prepared(tx, 'find_membership', { org: orgId, user: userId }, () =>
    tx
      .select({ orgId: memberships.orgId, userId: memberships.userId, role: memberships.role })
      .from(memberships)
      .where(and(eq(memberships.orgId, sql.placeholder('org')), eq(memberships.userId, sql.placeholder('user')))),
  )
  return row
}

/**
 * Whether the user is still a member; if so, the membership cannot end before this transaction does. For a transaction
 * that records what ends with the membership.
 */
export async function holdMembership(tx: Tx, orgId: Uuid, userId: Uuid): Promise<boolean> {
  return (
    (
      await prepared(tx, 'hold_membership', { org: orgId, user: userId }, () =>
        tx
          .select({ userId: memberships.userId })
          .from(memberships)
          .where(and(eq(memberships.orgId, sql.placeholder('org')), eq(memberships.userId, sql.placeholder('user'))))
          .for('share'),
      )
    ).length > 0
  )
}
