import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { type SQL, sql } from '../../db/orm.ts'
import { albumMedia, albums } from '../../db/schema/albums.ts'
import { comments } from '../../db/schema/comments.ts'
import { parkedEvents } from '../../db/schema/consumers.ts'
import { devices } from '../../db/schema/devices.ts'
import { type EventRow, eventParticipants, events } from '../../db/schema/events.ts'
import { invitations } from '../../db/schema/invitations.ts'
import { type MediaRow, media } from '../../db/schema/media.ts'
import { notificationDeliveries, notificationPauses, notifications } from '../../db/schema/notifications.ts'
import { memberships, organizations } from '../../db/schema/organizations.ts'
import { outbox } from '../../db/schema/outbox.ts'
import { reactions } from '../../db/schema/reactions.ts'
import { legalHolds } from '../../db/schema/retention.ts'
import { HELD_SECONDS, isHeld, lockHolds } from '../../retention/holds-queries.ts'
import { lease, postpone, releaseLeases } from '../../retention/leases-queries.ts'
import { constantTime, cutoffOf } from '../../retention/policies-queries.ts'
import type { Admitted, ClaimOptions, Due, ReportLine } from '../../retention/target.ts'
import { purgeTime } from '../events/purge-time-queries.ts'
import { findEvent } from '../events/queries.ts'
import { FORGOTTEN_DAYS, LAST_NOTICE, MAX_REFUSED } from './notice-plan.ts'
import { LOOK_AGAIN } from './plan.ts'

export const EVENT_LEASES = { table: events, id: events.id }

export type Action = ReportLine['action']
export interface DueEvent {
  id: Uuid
  orgId: Uuid
  action: Action
}

/** Archived at this time or before, the period of an event is over. */
const toPurge = (due: Due) => cutoffOf(due, 'EventArchive', null)
/** Whether the period of the event `e` is over, also by its organization. */
const isOver = (due: Due, before = toPurge(due)) =>
  sql`(e.archived_at <= ${before} and ${purgeTime(sql`e`)} <= ${due.at}::timestamptz)`
/**
 * An older worker announced a time that was cut off to milliseconds, so that the consumer did not find the event. No one was told.
 */
const isOfNoMessage = sql`(e.purge_notice_for <> date_trunc('milliseconds', e.purge_notice_for))`
/** An older worker handles a notice without saying so. */
const isUnhandled = sql`(e.purge_notice_unhandled and not exists (select from ${notifications} n
  where n.event_id = e.id and n.purge_at = e.purge_notice_for and n.purge_notice = ${sql.raw(String(LAST_NOTICE))}))`
/** Of all messages of the last notice of the event `e`. Webhooks do not count: they are the organization's. */
const ofMessages = (answer: SQL) => sql`(select ${answer} from ${notifications} n
  join ${notificationDeliveries} d on d.notification_id = n.id and d.channel <> 'webhook'
  where n.event_id = e.id and n.purge_at = e.purge_notice_for and n.purge_notice = ${sql.raw(String(LAST_NOTICE))})`
/** One of several owners who was told is enough. What was refused, or is not wanted, is not waited for. */
const isUnderWay = sql`bool_or(d.state in ('pending', 'sending')) and not bool_or(d.state in ('sent', 'uncertain'))`
const sentSince = (channel: 'email' | 'push') => sql`from ${notificationDeliveries} o
  where o.channel = ${sql.raw(`'${channel}'`)} and o.state = 'sent' and o.updated_at > n.created_at`
/** Apps have a push service of their own. So many messages at most are looked at, as none may be to a device of the same kind. */
const isPushedSince = sql`exists (select from ${devices} own
  join (select o.destination ${sentSince('push')} order by o.updated_at desc limit 1000) o on true
  join ${devices} other on other.id = o.destination::uuid and other.kind = own.kind
  where own.id = case d.channel when 'push' then d.destination::uuid end)`
/** How many attempts have ended and count. */
const tried = sql`(d.attempts - case d.state when 'sending' then 1 else 0 end)`
/** The receiver has refused the message for the time being, while others got theirs the same way: it is no outage. */
const isRefusedForNow = sql`(${tried} > 0
  and case d.channel when 'email' then exists (select ${sentSince('email')}) else ${isPushedSince} end)`
/** The receiver could never be reached, and rests alone: not with a service that others share. */
const isUnreachable = sql`(${tried} = 0 and exists (select from ${notificationPauses} p
  where p.channel = d.channel and p.receiver = d.destination))`
/**
 * Of what is under way, without what cannot be reached: that neither counts as refused nor keeps the others from it. The inner
 * condition keeps Postgres from reading what was sent for others.
 */
const areRefusedForNow = (when: SQL) => sql`coalesce(bool_and(case when not ${when} then false
  when ${isRefusedForNow} then true when not ${isUnreachable} then false end) filter (where d.state in ('pending', 'sending')), false)`
/** Whether all messages of the last notice of the event `e` are refused for the time being. What is being sent was, if it was tried before. */
export const isTurnedAway = sql<boolean>`coalesce(${ofMessages(sql`${isUnderWay} and ${areRefusedForNow(sql`true`)}`)}, false)`
/** The same, as far as a purge goes by it: what is being sent may arrive this time. */
const areRefusedForGood = areRefusedForNow(
  sql`(d.state = 'pending' and e.purge_notices_refused + 1 >= ${sql.raw(String(MAX_REFUSED))})`,
)

/**
 * Whether the last notice of the event `e` is still on its way: it is not handled, or no message to a person has left, and none
 * has been refused for too long. The outbox and what is parked are asked for notices of an older worker, which does not say that
 * they are not handled. A purge that has begun goes on. Limits, because Postgres would read all of the outbox for an `exists`.
 */
export const isUnheard = sql<boolean>`(e.purge_begun_at is null and coalesce(
  case when ${isUnhandled} or ${isOfNoMessage} then true end,
  (select true from ${outbox} o where o.aggregate_id = e.id and o.published_at is null and o.type = 'EventPurgeSoon' limit 1),
  (select true from ${parkedEvents} p where p.consumer = 'notifications' and p.aggregate_id = e.id
    and p.event->>'type' = 'EventPurgeSoon' limit 1),
  ${ofMessages(sql`${isUnderWay} and not ${areRefusedForGood}`)},
  false))`

/** Whom a notice of the purge of the event `e` goes to: its owner while a member, otherwise, as null, the owners of the organization. */
export const addressee = sql<Uuid | null>`(select m.user_id from ${memberships} m where m.org_id = e.org_id and m.user_id = e.owner_id)`

/** Whether the notice of the event `e` went to another than it would now. A purge that has begun goes on. */
export const isToAnother = sql<boolean>`(e.purge_begun_at is null and e.purge_notice_to is distinct from ${addressee})`

/** Whether who cares for the event `e` was told of the purge: of this time, or an earlier one. */
const isAnnounced = (due: Due) => sql`(e.purge_notice = ${sql.raw(String(LAST_NOTICE))}
  and e.purge_notice_for <= ${due.at}::timestamptz
  and e.purge_notice_for > ${due.at}::timestamptz - make_interval(days => ${FORGOTTEN_DAYS})
  and ${purgeTime(sql`e`)} <= e.purge_notice_for and not ${isToAnother} and not ${isUnheard})`
/** The same for the cold tier. */
function toCool(due: Due): SQL {
  const after = due.rules.find(({ action }) => action === 'moveToTier')?.after
  return after === undefined ? sql`'-infinity'::timestamptz` : sql`${due.at}::timestamptz - ${after}::interval`
}

/** Whether a person under a hold has anything in the event `e`, so that a purge would take it. */
const holdsSomeone = sql`exists (select from ${legalHolds} h where h.released_at is null and h.kind = 'person' and (
  h.subject = e.owner_id
  or exists (select from ${eventParticipants} p where p.event_id = e.id and p.user_id = h.subject)
  or exists (select from ${comments} c where c.event_id = e.id and (c.author_id = h.subject or h.subject = any(c.mentions)))
  or exists (select from ${reactions} r where r.event_id = e.id and r.user_id = h.subject)
  or exists (select from ${invitations} i where i.event_id = e.id and h.subject in (i.user_id, i.invited_by, i.former_inviter, i.responded_by))
  or exists (select from ${albums} a left join ${albumMedia} i on i.album_id = a.id left join ${media} m on m.id = i.media_id
    where a.event_id = e.id and h.subject in (a.owner_id, i.added_by, i.caption_by, m.uploader_id))))`

/** The holds on the event `e`. */
export const isEventHeld = sql<boolean>`(${isHeld({ organization: sql`e.org_id`, event: (id) => sql`e.id = ${id}` })}
  or ((select exists (select from ${legalHolds} where released_at is null and kind = 'person')) and ${holdsSomeone}))`

/** In the order of the index alone, which has the lease as well: what is leased costs no look at its row. */
export const dueToPurge = (due: Due, limit: number) => sql`
  select e.id, e.org_id as "orgId", ${isEventHeld} as held from ${events} e
  where ${isAnnounced(due)} and e.archived_at <= ${toPurge(due)} and e.lease_at <= now()
  order by e.purge_notice_for, e.lease_at limit ${limit} for update of e skip locked`
export const dueToCool = (due: Due, limit: number) => sql`
  select e.id, e.org_id as "orgId" from ${events} e
  where e.archived_at is not null and e.archived_at <= ${toCool(due)} and not ${isOver(due)}
    and e.cold_look_at <= ${due.at}::timestamptz and e.lease_at <= now()
  order by e.archived_at, e.cold_look_at limit ${limit} for update of e skip locked`

/**
 * Leases events that are due: those to be purged first, whose owners were told, then those whose originals may move. A
 * held one is looked at again later; moving loses nothing, so that no hold stops it.
 */
export async function claimEvents(tx: Tx, due: Due, o: ClaimOptions): Promise<{ items: DueEvent[]; held: number }> {
  const purge = await tx.execute<{ id: Uuid; orgId: Uuid; held: boolean }>(dueToPurge(due, o.limit))
  const isFree = purge.rows.filter(({ held }) => !held)
  const left = o.limit - purge.rows.length
  const cool = await tx.execute<{ id: Uuid; orgId: Uuid }>(dueToCool(due, left))
  const items: DueEvent[] = [
    ...isFree.map(({ id, orgId }) => ({ id, orgId, action: 'purge' as const })),
    ...cool.rows.map(({ id, orgId }) => ({ id, orgId, action: 'moveToTier' as const })),
  ]
  const held = purge.rows.filter((row) => row.held).map(({ id }) => id)
  if (items.length > 0)
    await lease(
      tx,
      EVENT_LEASES,
      items.map(({ id }) => id),
      o,
    )
  if (held.length > 0) await postpone(tx, EVENT_LEASES, held, { until: { seconds: HELD_SECONDS } })
  return { items, held: held.length }
}

/** How many events there are. */
export const countEvents = (tx: Tx): Promise<number> => tx.$count(events)

/**
 * Later looks for what was held are no work that is due. An event whose period is over is, also before its owner was told: so a
 * run that finds too much due asks for a confirmation before anyone is told.
 */
export async function countDueEvents(tx: Tx, due: Due): Promise<{ due: number; held: number }> {
  const purge = await constantTime(tx, toPurge(due))
  const { rows } = await tx.execute<{ n: number; held: number }>(sql`
    select count(*)::float8 as n, (count(*) filter (where ${isEventHeld}))::float8 as held from ${events} e
    where e.archived_at is not null and ${isOver(due, purge)}`)
  const cool = await tx.execute<{ n: number }>(sql`
    select count(*)::float8 as n from ${events} e
    where e.archived_at is not null and e.archived_at <= ${toCool(due)} and not ${isOver(due, purge)}
      and e.cold_at is null and e.cold_look_at <= ${due.at}::timestamptz`)
  const { n, held } = rows[0] ?? { n: 0, held: 0 }
  return { due: n - held + (cool.rows[0]?.n ?? 0), held }
}

/**
 * Of the events that are due to be purged, those that were due by the policy of a run before: their owners are told meanwhile.
 * None where a hold has ended since: what it kept was not counted then.
 */
export async function countAdmittedEvents(tx: Tx, due: Due, { at, purgeAfter }: Admitted): Promise<number> {
  const purge = await constantTime(tx, toPurge(due))
  const { rows } = await tx.execute<{ n: number }>(sql`
    select count(*)::float8 as n from ${events} e
    where e.archived_at is not null and ${isOver(due, purge)}
      and e.archived_at <= ${at}::timestamptz - ${purgeAfter}::interval and not ${isEventHeld}
      and not exists (select from ${legalHolds} h where h.released_at > ${at}::timestamptz)`)
  return rows[0]?.n ?? 0
}

/** What a run would do, the longest archived first: to a held event nothing. Bytes are those of the originals of its album. */
export async function listDueEvents(
  tx: Tx,
  due: Due,
  o: { after: string | undefined; limit: number },
): Promise<{ lines: (Omit<ReportLine, 'id'> & { id: Uuid })[]; last: string }> {
  const [at, id] = o.after?.split(' ') ?? []
  const { rows } = await tx.execute<{ id: Uuid; since: string; bytes: number; held: boolean; purge: boolean }>(sql`
    select e.id, to_char(e.archived_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as since,
      ${isOver(due)} as purge, ${isOver(due)} and ${isEventHeld} as held,
      (select coalesce(sum(m.file_size_bytes), 0)::float8 from ${albums} a join ${albumMedia} i on i.album_id = a.id
        join ${media} m on m.id = i.media_id where a.event_id = e.id
          and (m.original_tier = 'hot' or ${isOver(due)})) as bytes
    from ${events} e
    where e.archived_at is not null and (${isOver(due)}
        or e.archived_at <= ${toCool(due)} and e.cold_at is null and e.cold_look_at <= ${due.at}::timestamptz)
      ${at === undefined ? sql`` : sql`and (e.archived_at, e.id) > (${at}::timestamptz, ${id}::uuid)`}
    order by e.archived_at, e.id limit ${o.limit}`)
  const end = rows.at(-1)
  return {
    lines: rows.map(({ purge, ...line }) => ({ ...line, action: purge ? 'purge' : 'moveToTier' })),
    last: end ? `${end.since} ${end.id}` : '',
  }
}

export interface Leased {
  row: EventRow
  isHeld: boolean
}

/**
 * The event, locked before everything that belongs to it, if the lease is still this one and the event is still due. From here
 * to the end of the transaction no hold is added.
 */
export async function lockDueEvent(
  tx: Tx,
  { id, orgId, action }: DueEvent,
  { token, due }: { token: Uuid; due: Due },
): Promise<Leased | undefined> {
  if (action === 'purge') await lockHolds(tx)
  const row = await findEvent(tx, orgId, id, { lock: 'update' })
  if (!row || row.leaseToken !== token) return undefined
  // Who keeps events for longer from now on waits, or is seen.
  if (action === 'purge') await tx.execute(sql`select from ${organizations} where id = ${orgId} for share`)
  const { rows } = await tx.execute<{ due: boolean; held: boolean }>(sql`
    select ${action === 'purge' ? sql`${isAnnounced(due)} and e.archived_at <= ${toPurge(due)}` : sql`e.archived_at <= ${toCool(due)}`} as due,
      ${action === 'purge' ? isEventHeld : sql`false`} as held
    from ${events} e where e.id = ${id}`)
  const [now] = rows
  if (now?.due) return { row, isHeld: now.held }
  // Its period has become longer. The lease goes back, or the run would wait for its end.
  await postponeEvent(tx, id, token, HELD_SECONDS)
  return undefined
}

/** No one works on the event for so long. */
export const postponeEvent = (tx: Tx, id: Uuid, token: Uuid, seconds: number): Promise<void> =>
  postpone(tx, EVENT_LEASES, [id], { until: { seconds }, token })

/** Every original that could move has moved, by the time of the run. Returns whether it is the first time. Call with the event locked. */
export async function markCooled(tx: Tx, id: Uuid, due: Due): Promise<boolean> {
  const { rows } = await tx.execute<{ first: boolean }>(sql`
    update ${events} e set cold_look_at = ${due.at}::timestamptz + ${LOOK_AGAIN}::interval,
      cold_at = coalesce(e.cold_at, ${due.at}::timestamptz), lease_at = now(), lease_token = null
    from (select id, cold_at is null as first from ${events} where id = ${id}) before
    where e.id = before.id returning before.first`)
  return rows[0]?.first ?? false
}

/** The same for an event of which something could not be moved: it comes again with the later looks. Call with the event locked. */
export async function markLookedAt(tx: Tx, id: Uuid, due: Due): Promise<void> {
  await tx.execute(sql`update ${events} set cold_look_at = ${due.at}::timestamptz + ${LOOK_AGAIN}::interval,
    lease_at = now(), lease_token = null where id = ${id}`)
}

export interface Belongings {
  comments: number
  reactions: number
  invitations: number
  participants: number
}

/** What goes with the event, in numbers, for the audit log. */
export async function countBelongings(tx: Tx, id: Uuid): Promise<Belongings> {
  const count = (table: typeof comments | typeof reactions | typeof invitations | typeof eventParticipants) =>
    sql`(select count(*)::int from ${table} where event_id = ${id})`
  const { rows } = await tx.execute<{ [K in keyof Belongings]: number }>(sql`
    select ${count(comments)} as comments, ${count(reactions)} as reactions, ${count(invitations)} as invitations,
      ${count(eventParticipants)} as participants`)
  return rows[0] as Belongings
}

/** Whether a hold keeps the event, or someone in it. In a transaction that has `lockHolds`, also at its end. */
export async function isEventKept(tx: Tx, id: Uuid): Promise<boolean> {
  const { rows } = await tx.execute<{ held: boolean }>(
    sql`select ${isEventHeld} as held from ${events} e where e.id = ${id}`,
  )
  return rows[0]?.held ?? false
}

/** Whether the lease is still this one; the event is locked. */
export async function lockLeasedEvent(tx: Tx, { id, orgId }: DueEvent, token: Uuid): Promise<boolean> {
  return (await findEvent(tx, orgId, id, { lock: 'update' }))?.leaseToken === token
}

/** Locks the places of media items in albums, in the order of migration 0012: the trigger takes them row by row. */
const lockPlaces = (tx: Tx, ids: SQL) =>
  tx.execute(sql`select from ${albumMedia} where media_id = ${ids} order by media_id, album_id for update`)

/** A media item, and what it has in the store. */
export interface Stored {
  id: Uuid
  bytes: number
  /** A digest of the names and sizes of all of its objects. */
  objects: string
}

const asRows = (stored: readonly Stored[]) => sql`unnest(
  ${sql.param(stored.map(({ id }) => id))}::uuid[], ${sql.param(stored.map(({ objects }) => objects))}::text[]) s(id, objects)`

type TakenRow = Pick<MediaRow, 'id' | 'orgId' | 'uploaderId' | 'version' | 'deletedAt'>

/**
 * Media items leave the library with the event. Returns those that were in it, and not in the trash. The times of the
 * deletion and of the withdrawal are the same for these, by which `putBack` knows them. Call with the event and the rows
 * locked.
 */
export async function takeOut(
  tx: Tx,
  stored: readonly Stored[],
  o: { event: Uuid; token: Uuid; seconds: number },
): Promise<TakenRow[]> {
  const ids = stored.map(({ id }) => id)
  const these = sql`any(${sql.param(ids)}::uuid[])`
  await lockPlaces(tx, these)
  const left = await tx
    .update(media)
    .set({
      deletedAt: sql`coalesce(deleted_at, now())`,
      deletedBy: sql`coalesce(deleted_by, uploader_id)`,
      purgingAt: sql`now()`,
      leavingWith: o.event,
      leavingObjects: sql`(select objects from ${asRows(stored)} where s.id = ${media}.id)`,
      version: sql`version + 1`,
      updatedAt: sql`now()`,
    })
    .where(sql`id = ${these} and purging_at is null`)
    .returning({
      ...{ id: media.id, orgId: media.orgId, uploaderId: media.uploaderId, version: media.version },
      ...{ deletedAt: media.deletedAt, isNew: sql<boolean>`deleted_at = purging_at` },
    })
  await lease(tx, { table: media, id: media.id }, ids, o)
  await tx.execute(sql`update ${events} set purge_begun_at = now() where id = ${o.event} and purge_begun_at is null`)
  return left.filter(({ isNew }) => isNew)
}

/**
 * Undoes `takeOut` of a group that has lost nothing since, unless an erasure has taken it. Returns those that are back in the
 * library. Call with the event and the rows locked.
 */
export async function putBack(tx: Tx, stored: readonly Stored[], event: Uuid): Promise<{ id: Uuid }[]> {
  const these = sql`any(${sql.param(stored.map(({ id }) => id))}::uuid[])`
  const { rows: torn } = await tx.execute(sql`select from ${media} m join ${asRows(stored)} on s.id = m.id
    where m.leaving_objects is distinct from s.objects`)
  if (torn.length > 0) return []
  await lockPlaces(tx, these)
  // The purge has not begun if it had begun with these.
  await tx.execute(sql`update ${events} e set purge_begun_at = null from ${media} m
    where e.id = ${event} and m.id = ${these} and m.leaving_with = e.id and m.purging_at = e.purge_begun_at`)
  const unlessTrashed = (column: SQL) => sql`case when deleted_at <> purging_at then ${column} end`
  const back = await tx
    .update(media)
    .set({
      deletedAt: unlessTrashed(sql`deleted_at`),
      deletedBy: unlessTrashed(sql`deleted_by`),
      purgingAt: null,
      leavingWith: null,
      leavingObjects: null,
      version: sql`version + 1`,
      updatedAt: sql`now()`,
      leaseAt: sql`now()`,
      leaseToken: null,
    })
    .where(sql`id = ${these} and leaving_with = ${event}`)
    .returning({ id: media.id, deletedAt: media.deletedAt })
  return back.filter(({ deletedAt }) => deletedAt === null)
}

/** Gives back the leases of media items that were not purged: the next process of a run may purge them. */
export const releaseMedia = (tx: Tx, ids: readonly Uuid[], token: Uuid): Promise<void> =>
  releaseLeases(tx, { table: media, id: media.id }, { ids, token })

/** The row says from now on that the original is in the cold tier. Call with it locked. */
export async function switchToCold(tx: Tx, id: Uuid, sha256: string): Promise<void> {
  await tx.execute(
    sql`update ${media} set original_tier = 'both', sha256 = coalesce(sha256, ${sha256}) where id = ${id}`,
  )
}

/** The original is in the cold tier alone. */
export async function forgetHot(tx: Tx, id: Uuid): Promise<void> {
  await tx.execute(sql`update ${media} set original_tier = 'cold' where id = ${id} and original_tier = 'both'`)
}
