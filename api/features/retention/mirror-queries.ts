import type { Tx } from '../../db/db.ts'
import { notInArray, sql } from '../../db/orm.ts'
import { retentionPolicies } from '../../db/schema/retention.ts'
import type { PolicyInForce } from './policy-plan.ts'

/** Makes the table say that these policies are in force, and no others. */
export async function replacePolicies(tx: Tx, policies: readonly PolicyInForce[]): Promise<void> {
  const targets = policies.map(({ target }) => target)
  await tx
    .delete(retentionPolicies)
    .where(targets.length > 0 ? notInArray(retentionPolicies.target, targets) : undefined)
  for (const policy of policies) {
    const { target: _, ...set } = policy
    await tx
      .insert(retentionPolicies)
      .values(policy)
      .onConflictDoUpdate({ target: retentionPolicies.target, set: { ...set, observedAt: sql`now()` } })
  }
}
