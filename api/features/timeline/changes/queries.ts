import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import { eq, sql } from '../../../db/orm.ts'
import { prepared } from '../../../db/prepared.ts'
import { memberships } from '../../../db/schema/organizations.ts'

/** In the scope of the user: row-level security hides all other memberships. */
export const listOwnOrganizationIds = (tx: Tx, userId: Uuid): Promise<{ orgId: Uuid }[]> =>
  prepared(tx, 'list_own_organization_ids', { user: userId }, () =>
    tx
      .select({ orgId: memberships.orgId })
      .from(memberships)
      .where(eq(memberships.userId, sql.placeholder('user'))),
  )

/** The versions of these feeds, by organization. A feed that never changed has none. Needs no scope (migration 0034). */
export async function findFeedVersions(tx: Tx, orgIds: readonly Uuid[]): Promise<Map<Uuid, number>> {
  const given = sql`select org_id as "orgId", n from feed_numbers(${sql.param(orgIds)}::uuid[])`
  const { rows } = await tx.execute<{ orgId: Uuid; n: string }>(given)
  return new Map(rows.map(({ orgId, n }) => [orgId, Number(n)]))
}
