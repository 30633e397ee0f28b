import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import { type SQL, sql } from '../../../db/orm.ts'
import { type UploadRow, uploadChunks, uploads } from '../../../db/schema/uploads.ts'
import { HELD_SECONDS, lockHolds } from '../../../retention/holds-queries.ts'
import { lease, postpone } from '../../../retention/leases-queries.ts'
import { cutoffOf } from '../../../retention/policies-queries.ts'
import type { ClaimOptions, Due, Swept } from '../../../retention/target.ts'
import { endExpired, isOver, isUploadHeld } from './queries.ts'

export const UPLOAD_LEASES = { table: uploads, id: uploads.id }
export const DEFAULT = 'P1D'

/** Idle for as long as the policy says: a session expires a day after its last chunk, and is never ended before that. */
const isIdle = (due: Due): SQL =>
  sql`(u.expires_at <= now() and u.expires_at - interval '1 day' <= ${cutoffOf(due, 'Uploads', DEFAULT)})`
const isUnreleased = sql`u.state in ('completed', 'aborted', 'expired') and u.storage_released_at is null`

const idsOf = (rows: readonly Record<string, unknown>[]) => rows.map(({ id }) => id as Uuid)

/** Ends sessions that are due, and leases ended ones of which the store may still have something. */
export async function claimUploads(
  tx: Tx,
  due: Due,
  o: ClaimOptions,
): Promise<{ items: (UploadRow & { bytes: number })[]; held: number }> {
  const idle = await tx.execute(sql`select u.id from ${uploads} u where u.state in ('open', 'merging') and ${isOver}
    and ${isIdle(due)} and not ${isUploadHeld} order by u.expires_at limit ${o.limit} for update skip locked`)
  await endExpired(tx, idsOf(idle.rows))
  const { rows } = await tx.execute<{ id: Uuid; held: boolean }>(sql`
    select u.id, ${isUploadHeld} as held from ${uploads} u where ${isUnreleased} and u.lease_at <= now()
    order by u.lease_at limit ${o.limit} for update skip locked`)
  const held = idsOf(rows.filter((row) => row.held))
  const free = idsOf(rows.filter((row) => !row.held))
  if (held.length > 0) await postpone(tx, UPLOAD_LEASES, held, { until: { seconds: HELD_SECONDS } })
  if (free.length === 0) return { items: [], held: held.length }
  await lease(tx, UPLOAD_LEASES, free, o)
  // What had arrived and became no original; of a completed session, the chunks that were joined.
  const arrived = sql<number>`(select coalesce(sum(c.size_bytes), 0) from ${uploadChunks} c
    where c.upload_id = uploads.id and (uploads.state <> 'completed' or uploads.layout = 'staged'))`.mapWith(Number)
  const items = await tx
    .select({ upload: uploads, bytes: arrived })
    .from(uploads)
    .where(sql`${uploads.id} = any(${sql.param(free)}::uuid[])`)
  return { items: items.map(({ upload, bytes }) => ({ ...upload, bytes })), held: held.length }
}

/** Whether the lease is still this one, and a hold. Locks the row and the holds with `lock`. */
export async function findLeasedUpload(
  tx: Tx,
  o: { id: Uuid; token: Uuid; lock: boolean },
): Promise<{ held: boolean } | undefined> {
  if (o.lock) await lockHolds(tx)
  const { rows } = await tx.execute<{ held: boolean }>(sql`select ${isUploadHeld} as held from ${uploads} u
    where u.id = ${o.id} and u.lease_token = ${o.token} ${o.lock ? sql`for update` : sql``}`)
  return rows[0]
}

export const postponeHeldUpload = (tx: Tx, o: { id: Uuid; token: Uuid }): Promise<void> =>
  postpone(tx, UPLOAD_LEASES, [o.id], { until: { seconds: HELD_SECONDS }, token: o.token })

const countUploads = (tx: Tx): Promise<number> => tx.$count(uploads)

const isDue = (due: Due) => sql`(${isUnreleased} or (u.state in ('open', 'merging') and ${isOver} and ${isIdle(due)}))`

async function countDueUploads(tx: Tx, due: Due): Promise<{ due: number; held: number }> {
  const { rows } = await tx.execute<{ n: number; held: number }>(sql`
    select count(*)::float8 as n, (count(*) filter (where ${isUploadHeld}))::float8 as held from ${uploads} u
    where u.storage_released_at is null and ${isDue(due)}`)
  const { n, held } = rows[0] ?? { n: 0, held: 0 }
  return { due: n - held, held }
}

/** Uploads, for guards: as much of the target as its sweep needs, too. */
export const UPLOADS: Swept = { name: 'Uploads', few: 1000, total: countUploads, countDue: countDueUploads }

export async function listDueUploads(tx: Tx, due: Due, o: { after: string | undefined; limit: number }) {
  const { rows } = await tx.execute<{ id: Uuid; since: string; bytes: number; held: boolean }>(sql`
    select u.id, to_char(u.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as since, ${isUploadHeld} as held,
      (select coalesce(sum(c.size_bytes), 0) from ${uploadChunks} c where c.upload_id = u.id)::float8 as bytes
    from ${uploads} u where u.storage_released_at is null and ${isDue(due)}
      ${o.after === undefined ? sql`` : sql`and u.id > ${o.after}::uuid`}
    order by u.id limit ${o.limit}`)
  return rows
}
