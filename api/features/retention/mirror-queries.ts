import type { RetentionTarget } from '../../../crds/retention-rules.ts'
import type { Tx } from '../../db/db.ts'
import { isNotNull, notInArray, sql } from '../../db/orm.ts'
import { retentionMirror, retentionPolicies, retentionSweeps } from '../../db/schema/retention.ts'
import { lockPoliciesAlone, waitForClaims } from '../../retention/policies-queries.ts'
import type { PolicyInForce, Seen } from './policy-plan.ts'

/** Rows stay for so long while the cluster says that it does not know the kind. */
const NOT_SERVED_MINUTES = 15
/** The same after a pause of more than this: no one knows what was there in between. Longer than the pause between two sweeps. */
const NOT_SEEN_HOURS = 2

/** The number of looks that were written. Read it before a look, and write the look with it. */
export async function readVersion(tx: Tx): Promise<number> {
  const [row] = await tx.select({ version: retentionMirror.version }).from(retentionMirror)
  if (!row) throw new Error('the row of the mirror is missing')
  return row.version
}

/**
 * Makes the table say what a look at the cluster has found. False: another look was written since this one began, and may know
 * more. Waits for the claims of sweeps that do not see it.
 */
export async function writeSeen(tx: Tx, version: number, seen: Seen): Promise<boolean> {
  await waitForClaims(tx)
  const { rowCount } = await tx
    .update(retentionMirror)
    .set({ version: version + 1, notServedSince: null, notServedAt: null })
    .where(sql`${retentionMirror.version} = ${version}`)
  if (rowCount !== 1) return false
  await lockPoliciesAlone(tx)
  const { inForce, unread, isPartial } = seen
  const targets = [...inForce, ...unread].map(({ target }) => target)
  if (!isPartial) {
    await tx
      .delete(retentionPolicies)
      .where(targets.length > 0 ? notInArray(retentionPolicies.target, targets) : undefined)
  }
  for (const policy of inForce) await upsert(tx, policy)
  for (const policy of unread) await upsert(tx, { ...policy, ...NEVER }, sql`${retentionPolicies.uid} <> ${policy.uid}`)
  await forgetQuestions(tx, targets)
  return true
}

/** What was asked and confirmed before there was a policy says nothing about the time after it. */
async function forgetQuestions(tx: Tx, targets: readonly RetentionTarget[]): Promise<void> {
  await tx.execute(sql`update ${retentionSweeps} set refused = null, reason = null, refused_since = null, asked_at = null,
      due = null, confirmed_due = null, confirmed_at = null
    where target = any(${sql.param([...targets])}::text[]) and (refused is not null or confirmed_due is not null)`)
}

/** Of a policy that cannot be read: what the row of it says stays; a new one purges nothing. */
const NEVER = { rules: [], purgeAfter: null, suspended: false, dryRun: false }

async function upsert(tx: Tx, policy: PolicyInForce, setWhere?: ReturnType<typeof sql>): Promise<void> {
  const { target: _, ...set } = policy
  await tx
    .insert(retentionPolicies)
    .values(policy)
    .onConflictDoUpdate({
      target: retentionPolicies.target,
      set: { ...set, observedAt: sql`now()` },
      ...(setWhere && { setWhere }),
    })
}

/**
 * The cluster says that it does not know the kind. Without rows there is nothing to do: it never had it. Rows are removed once
 * the cluster has said so for a while, for an answer of one moment may be that of a proxy, or of an API server that starts.
 * `outdated`: as above. `waits`: rows stay for now.
 */
export async function writeNotServed(tx: Tx, version: number): Promise<'outdated' | 'waits' | 'none'> {
  await waitForClaims(tx)
  const { rows } = await tx.execute<{ isOver: boolean }>(sql`update ${retentionMirror} set version = version + 1,
      not_served_since = case when not_served_at > now() - make_interval(hours => ${NOT_SEEN_HOURS})
        then least(not_served_since, now()) else now() end,
      not_served_at = now()
    where version = ${version}
    returning not_served_since <= now() - make_interval(mins => ${NOT_SERVED_MINUTES}) as "isOver"`)
  const [row] = rows
  if (!row) return 'outdated'
  await lockPoliciesAlone(tx)
  if (row.isOver) await tx.delete(retentionPolicies)
  return (await tx.$count(retentionPolicies)) > 0 ? 'waits' : 'none'
}

/** The cluster said something else, or nothing: it has to say anew, and for as long, that it does not know the kind. */
export async function forgetNotServed(tx: Tx): Promise<void> {
  await tx
    .update(retentionMirror)
    .set({ notServedSince: null, notServedAt: null })
    .where(isNotNull(retentionMirror.notServedSince))
}
