import { inArray, sql } from 'drizzle-orm'
import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { media } from '../../db/schema/media.ts'
import { organizations } from '../../db/schema/organizations.ts'
import type { OrganizationSeen } from './admission-plan.ts'
import { lockMedia } from './queries.ts'

// Must match the predicates of the indexes media_admitted and media_waiting literally: the planner requires it.
const unfinished = sql`kind = 'video' and upload_status = 'processing' and deleted_at is null`
const isAdmitted = sql`${unfinished} and conversion_admitted_at is not null`
const isWaiting = sql`${unfinished} and conversion_admitted_at is null`

/** Organizations with a free slot and a video that waits for one. */
export async function listAdmissible(tx: Tx, maxPerOrganization: number): Promise<Uuid[]> {
  // Skips from one organization to the next in the index instead of scanning all waiting videos.
  const { rows } = await tx.execute<{ orgId: Uuid }>(sql`
    with recursive waiting (org_id) as (
      (select org_id from ${media} where ${isWaiting} order by org_id limit 1)
      union all
      select (select m.org_id from ${media} m where ${isWaiting} and m.org_id > waiting.org_id order by m.org_id limit 1)
      from waiting where waiting.org_id is not null
    )
    select org_id as "orgId" from waiting
    where org_id is not null
      and (select count(*) from ${media} m where m.org_id = waiting.org_id and ${isAdmitted}) < ${maxPerOrganization}`)
  return rows.map(({ orgId }) => orgId)
}

/** Keeps other transactions from admitting videos of these organizations until this one ends. Locks in order of id. */
export async function lockAdmissions(tx: Tx, orgIds: readonly Uuid[]): Promise<void> {
  await tx
    .select({ id: organizations.id })
    .from(organizations)
    .where(inArray(organizations.id, [...orgIds]))
    .orderBy(organizations.id)
    // Not `for update`, which would block inserts of rows that refer to the organization.
    .for('no key update')
}

/** Counts the admitted videos of each organization and lists at most `limit` of the waiting ones. */
export async function findOrganizations(tx: Tx, orgIds: readonly Uuid[], limit: number): Promise<OrganizationSeen[]> {
  const { rows } = await tx.execute<{ admitted: number; waiting: { id: Uuid; createdAt: string }[] }>(sql`
    select
      (select count(*)::int from ${media} m where m.org_id = o.id and ${isAdmitted}) as admitted,
      (select coalesce(json_agg(json_build_object('id', id, 'createdAt', created_at) order by created_at, id), '[]')
        from (select id, created_at from ${media} m where m.org_id = o.id and ${isWaiting}
          order by created_at, id limit ${limit}) oldest) as waiting
    from ${organizations} o where ${inArray(sql`o.id`, [...orgIds])}`)
  return rows.map(({ admitted, waiting }) => ({
    admitted,
    waiting: waiting.map(({ id, createdAt }) => ({ id, createdAt: new Date(createdAt) })),
  }))
}

/** `updated_at` moves too: the sweep counts its deadlines from the admission and not from the upload. */
export async function admitVideos(tx: Tx, ids: readonly Uuid[]): Promise<void> {
  await lockMedia(tx, ids)
  await tx
    .update(media)
    .set({ conversionAdmittedAt: sql`now()`, updatedAt: sql`now()` })
    .where(inArray(media.id, [...ids]))
}

/** Videos that wait for a slot of their organization. */
export async function countWaiting(tx: Tx): Promise<number> {
  const { rows } = await tx.execute<{ n: number }>(sql`select count(*)::int as n from ${media} where ${isWaiting}`)
  return rows[0]?.n ?? 0
}
