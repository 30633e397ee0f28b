import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { type SQL, sql } from '../../db/orm.ts'
import { events } from '../../db/schema/events.ts'
import { notifications } from '../../db/schema/notifications.ts'
import { HELD_SECONDS, isHeld, lockHolds } from '../../retention/holds-queries.ts'
import { lease, postpone } from '../../retention/leases-queries.ts'
import { constantTime, cutoffOf } from '../../retention/policies-queries.ts'
import type { ClaimOptions, Due } from '../../retention/target.ts'

export const NOTIFICATION_LEASES = { table: notifications, id: notifications.id }
/** Longer than the stream keeps events: a message that comes again later could not be told from a new one. */
export const DEFAULT = 'P90D'

/** Not before the stream has forgotten its events, whatever a policy says: a message that comes again would be a new one. */
const before = (due: Due): SQL =>
  sql`least(${cutoffOf(due, 'Notifications', DEFAULT)}, ${due.at}::timestamptz - interval '8 days')`

const isNotificationHeld = isHeld({
  person: sql`n.user_id`,
  organization: sql`n.org_id`,
  event: (id) => sql`n.event_id = ${id}`,
})

/** The link of its mail leads through it, to an event that is still to come. */
const isNeeded = sql`exists (select from ${events} e where e.id = n.event_id and e.status = 'active'
  and coalesce(e.end_at, e.start_at) > now() - make_interval(days => 1))`

/** Leases old notifications; postpones those that are needed or held, and says how many. */
export async function claimNotifications(tx: Tx, due: Due, o: ClaimOptions): Promise<{ ids: Uuid[]; held: number }> {
  const { rows } = await tx.execute<{ id: Uuid; kept: boolean }>(sql`
    select n.id, (${isNeeded} or ${isNotificationHeld}) as kept from ${notifications} n
    where n.created_at < ${before(due)} and n.lease_at <= now()
    order by n.created_at, n.lease_at limit ${o.limit} for update of n skip locked`)
  const kept = rows.filter((row) => row.kept).map(({ id }) => id)
  const ids = rows.filter((row) => !row.kept).map(({ id }) => id)
  if (kept.length > 0) await postpone(tx, NOTIFICATION_LEASES, kept, { until: { seconds: HELD_SECONDS } })
  if (ids.length > 0) await lease(tx, NOTIFICATION_LEASES, ids, o)
  return { ids, held: kept.length }
}

/** Deletes those whose lease is still this one, and nothing keeps. Returns how many. */
export async function deleteLeased(tx: Tx, o: { ids: readonly Uuid[]; token: Uuid }): Promise<number> {
  await lockHolds(tx)
  // Locked first, and looked at again: a hold may have come since.
  const { rows } = await tx.execute<{ id: Uuid; kept: boolean }>(sql`
    select n.id, (${isNeeded} or ${isNotificationHeld}) as kept from ${notifications} n
    where n.id = any(${sql.param([...o.ids])}::uuid[]) and n.lease_token = ${o.token} order by n.id for update of n`)
  const kept = rows.filter((row) => row.kept).map(({ id }) => id)
  if (kept.length > 0) await postpone(tx, NOTIFICATION_LEASES, kept, { until: { seconds: HELD_SECONDS } })
  const free = rows.filter((row) => !row.kept).map(({ id }) => id)
  await tx.delete(notifications).where(sql`${notifications.id} = any(${sql.param(free)}::uuid[])`)
  return free.length
}

/**
 * Deletes old notifications, except those that are needed or held. Returns how many; call again while it returns `batch`.
 */
export async function deleteOldNotifications(tx: Tx, due: Due, batch: number): Promise<number> {
  const at = await constantTime(tx, before(due))
  await lockHolds(tx)
  const old = sql`select n.ctid from ${notifications} n
    where n.created_at < ${at} and not ${isNeeded} and not ${isNotificationHeld} limit ${batch}`
  const { rowCount } = await tx.execute(sql`delete from ${notifications} where ctid = any(array(${old}))`)
  return rowCount ?? 0
}

export const countNotifications = (tx: Tx): Promise<number> => tx.$count(notifications)

export async function countDueNotifications(tx: Tx, due: Due): Promise<{ due: number; held: number }> {
  const at = await constantTime(tx, before(due))
  const { rows } = await tx.execute<{ n: number; held: number }>(sql`
    select count(*)::float8 as n, (count(*) filter (where ${isNotificationHeld}))::float8 as held
    from ${notifications} n where n.created_at < ${at} and not ${isNeeded}`)
  const { n, held } = rows[0] ?? { n: 0, held: 0 }
  return { due: n - held, held }
}

export async function listDueNotifications(tx: Tx, due: Due, o: { after: string | undefined; limit: number }) {
  const [at, id] = o.after?.split(' ') ?? []
  const { rows } = await tx.execute<{ id: Uuid; since: string; held: boolean }>(sql`
    select n.id, to_char(n.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as since,
      ${isNotificationHeld} as held
    from ${notifications} n where n.created_at < ${before(due)} and not ${isNeeded}
      ${at === undefined ? sql`` : sql`and (n.created_at, n.id) > (${at}::timestamptz, ${id}::uuid)`}
    order by n.created_at, n.id limit ${o.limit}`)
  return rows
}
