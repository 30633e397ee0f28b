import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, eq, inArray, ne, type SQL, sql } from '../../db/orm.ts'
import {
  type DeliveryRow,
  notificationChannels,
  notificationDeliveries,
  notificationPauses,
} from '../../db/schema/notifications.ts'
import { APP_NOW } from '../../retention/clock.ts'
import { FORGOTTEN_DAYS, LAST_NOTICE } from '../event-archive/notice-plan.ts'
import type { ChannelName } from './channel.ts'
import type { Next } from './plan.ts'

export interface Claimed {
  delivery: DeliveryRow
  /** Whether the destination has failed since the last message that it took. */
  wasPaused: boolean
}

/**
 * Locks the delivery of the channel that is due longest, of a destination that does not rest and has no attempt in flight. Only the first of
 * each destination is found, so two workers that claim at the same time find different destinations; where their clocks
 * make them find the same one, the unique index refuses the later attempt.
 */
export async function claimDelivery(tx: Tx, channel: ChannelName): Promise<Claimed | undefined> {
  const d = notificationDeliveries
  const [row] = await tx
    .select({
      delivery: d,
      wasPaused: sql<boolean>`exists (select from notification_pauses ended where ended.channel = ${d.channel}
        and ended.receiver = ${d.destination})`,
    })
    .from(d)
    .where(
      and(
        eq(d.channel, channel),
        eq(d.state, 'pending'),
        sql`${d.nextAttemptAt} <= now()`,
        // Read once and hashed, which an array is not: ten thousand deliveries of as many receivers that rest may be due.
        sql`${d.destination} not in (
          select receiver from notification_pauses where channel = ${channel} and paused_until > now()
          union all
          select destination from notification_deliveries where channel = ${channel} and state = 'sending')`,
        // Not `not exists`: Postgres makes a join of it, which looks at all that is due before it sorts.
        sql`(select earlier.id from notification_deliveries earlier where earlier.channel = ${d.channel}
          and earlier.destination = ${d.destination} and earlier.state = 'pending'
          and (earlier.next_attempt_at, earlier.id) < (${d.nextAttemptAt}, ${d.id}) limit 1) is null`,
      ),
    )
    .orderBy(d.nextAttemptAt, d.id)
    .limit(1)
    .for('update', { of: d, skipLocked: true })
  return row
}

/** How often each sender looks for leases that have ended. */
export const LEASES_SECONDS = 5

/** Seconds until the next delivery of the channel is due, or a lease ends; undefined if there is none. */
export async function secondsToNext(tx: Tx, channel: ChannelName): Promise<number | undefined> {
  const { rows } = await tx.execute<{ seconds: number | null }>(sql`
    select extract(epoch from least(
      (select min(next_attempt_at) from notification_deliveries where channel = ${channel} and state = 'pending'
        and next_attempt_at > now()),
      (select greatest(min(next_attempt_at), now() + make_interval(secs => ${LEASES_SECONDS})) from notification_deliveries
        where channel = ${channel} and state = 'sending'),
      (select paused_until from notification_channels where channel = ${channel} and paused_until > now()),
      (select min(paused_until) from notification_pauses where channel = ${channel} and paused_until > now())
    ) - now())::float8 as seconds`)
  return rows[0]?.seconds ?? undefined
}

const touched = { updatedAt: sql`now()` }
const inSeconds = (seconds: number) => sql`now() + make_interval(secs => ${seconds}::float8)`

/** From the commit on, the message may be on its way. Returns the delivery with the number of the attempt. */
export async function markSending(tx: Tx, id: Uuid, leaseSeconds: number): Promise<DeliveryRow> {
  const d = notificationDeliveries
  const [row] = await tx
    .update(d)
    .set({
      ...touched,
      state: 'sending',
      preparations: 0,
      attempts: sql`${d.attempts} + 1`,
      startedAt: sql`now()`,
      nextAttemptAt: inSeconds(leaseSeconds),
    })
    .where(and(eq(d.id, id), eq(d.state, 'pending')))
    .returning()
  if (!row) throw new Error('a locked delivery vanished')
  return row
}

/**
 * Whether a message with the link of the notification is out, or may be: through another channel, or by an attempt without
 * an answer. Push messages have no link.
 */
export async function isOut(tx: Tx, { notificationId, mayHaveArrived }: DeliveryRow): Promise<boolean> {
  const d = notificationDeliveries
  if (mayHaveArrived) return true
  const withLink = and(eq(d.notificationId, notificationId), ne(d.channel, 'push'))
  return (await tx.$count(d, and(withLink, inArray(d.state, ['sending', 'sent'])))) > 0
}

export async function markSuppressed(tx: Tx, id: Uuid, reason: string): Promise<void> {
  const d = notificationDeliveries
  await tx
    .update(d)
    .set({ ...touched, state: 'suppressed', reason })
    .where(and(eq(d.id, id), eq(d.state, 'pending')))
}

/** Whether a purge waits for the delivery: it is of the last notice before one, which is not forgotten yet. */
const isOfLastNotice = sql`exists (select from notifications n where n.id = ${notificationDeliveries.notificationId}
  and n.purge_notice = ${LAST_NOTICE} and n.purge_at > ${APP_NOW} - make_interval(days => ${FORGOTTEN_DAYS}))`

/** Another attempt to prepare it later; after `most`, where it is given, it has failed, unless a purge waits for it. */
export async function postpone(
  tx: Tx,
  id: Uuid,
  o: { reason: string; afterSeconds: number; most?: number },
): Promise<void> {
  const d = notificationDeliveries
  await tx
    .update(d)
    .set({
      ...touched,
      preparations: sql`${d.preparations} + 1`,
      ...(o.most !== undefined && {
        state: sql`case when ${d.preparations} + 1 >= ${o.most} and not ${isOfLastNotice} then 'failed' else ${d.state} end`,
      }),
      nextAttemptAt: inSeconds(o.afterSeconds),
      reason: o.reason,
    })
    .where(and(eq(d.id, id), eq(d.state, 'pending')))
}

/** What one statement puts off: more would hold the claim of another worker up. */
const MAX_DELAYED = 5000

/**
 * Has a delivery wait for a service that rests, and with it the others of the service that are due before the service can
 * be tried again: each of them for itself would hold up what goes elsewhere. That is no failure of a delivery.
 */
export async function delayAll(
  tx: Tx,
  channel: ChannelName,
  { id, isBehind, reason, rest }: { id: Uuid; isBehind: SQL; reason: string; rest: number },
): Promise<void> {
  // Spread, so that what waits together does not come back together.
  await tx.execute(sql`
    update notification_deliveries set updated_at = now(), reason = ${reason},
      next_attempt_at = now() + make_interval(secs => ${rest}::float8 * (1 + 0.2 * random()))
    where id = ${id} or id = any(array(select d.id from notification_deliveries d
      where d.channel = ${channel} and d.state = 'pending'
        and d.next_attempt_at <= now() + make_interval(secs => ${rest}::float8) and ${isBehind}
      order by d.next_attempt_at, d.id limit ${MAX_DELAYED} for update of d skip locked))`)
}

/**
 * Records how an attempt ended. Also after its lease, as long as no other attempt has begun and none has settled the
 * delivery. Returns whether it did.
 */
export async function markEnded(tx: Tx, { id, attempts }: Pick<DeliveryRow, 'id' | 'attempts'>, next: Next) {
  const d = notificationDeliveries
  const { rowCount } = await tx
    .update(d)
    .set({
      ...touched,
      state: next.state,
      attempts: next.attempts,
      mayHaveArrived: next.mayHaveArrived,
      nextAttemptAt: inSeconds(next.afterSeconds),
      reason: next.reason,
    })
    .where(and(eq(d.id, id), eq(d.attempts, attempts), inArray(d.state, ['sending', 'pending'])))
  return rowCount === 1
}

/** Locks the attempts whose lease has ended, because their worker died. One that is just being recorded is left out. */
export function claimLost(tx: Tx, channel: ChannelName): Promise<DeliveryRow[]> {
  const d = notificationDeliveries
  return tx
    .select()
    .from(d)
    .where(and(eq(d.channel, channel), eq(d.state, 'sending'), sql`${d.nextAttemptAt} <= now()`))
    .for('update', { skipLocked: true })
}

/** Deliveries from when the channel was on. */
export async function suppressPending(tx: Tx, channel: ChannelName, reason: string): Promise<void> {
  const d = notificationDeliveries
  await tx
    .update(d)
    .set({ ...touched, state: 'suppressed', reason })
    .where(and(eq(d.channel, channel), eq(d.state, 'pending')))
}

/**
 * Deliveries that no attempt has settled within `days`. Returns how many. The last notice before a purge is tried until it is
 * forgotten: the purge waits for it.
 */
export async function giveUpOld(tx: Tx, days: number): Promise<number> {
  const d = notificationDeliveries
  const { rowCount } = await tx
    .update(d)
    .set({
      ...touched,
      state: sql`case when ${d.mayHaveArrived} then 'uncertain' else 'failed' end`,
      reason: sql`concat_ws(': ', 'not sent within ' || ${days}::text || ' days', ${d.reason})`,
    })
    .where(
      and(
        eq(d.state, 'pending'),
        sql`${d.createdAt} < now() - make_interval(days => ${days})`,
        sql`not ${isOfLastNotice}`,
      ),
    )
  return rowCount ?? 0
}

export const isPaused = async (tx: Tx, channel: ChannelName): Promise<boolean> =>
  (await tx.$count(
    notificationChannels,
    and(eq(notificationChannels.channel, channel), sql`${notificationChannels.pausedUntil} > now()`),
  )) > 0

/**
 * Whether the channel may send now. A channel that was paused is tried by one attempt, of one worker: the pause begins
 * anew for `probeSeconds`, and ends with the first attempt that reaches the other side.
 */
export async function admitChannel(
  tx: Tx,
  channel: ChannelName,
  probeSeconds: number,
): Promise<'open' | 'probe' | 'paused'> {
  const c = notificationChannels
  const [row] = await tx
    .select({ isOver: sql<boolean>`${c.pausedUntil} <= now()` })
    .from(c)
    .where(and(eq(c.channel, channel), sql`${c.failures} > 0`))
  if (!row) return 'open'
  if (!row.isOver) return 'paused'
  const { rowCount } = await tx
    .update(c)
    .set({ pausedUntil: inSeconds(probeSeconds) })
    .where(and(eq(c.channel, channel), sql`${c.pausedUntil} <= now()`))
  return rowCount === 1 ? 'probe' : 'paused'
}

/** Of several attempts that fail at the same time, the first counts; that of a probe always does. */
export async function pauseChannel(
  tx: Tx,
  channel: ChannelName,
  o: { reason: string; isProbe: boolean; secondsOf: (failures: number) => number },
): Promise<void> {
  const c = notificationChannels
  await tx.insert(c).values({ channel }).onConflictDoNothing()
  const [row] = await tx
    .select({ failures: c.failures, isPaused: sql<boolean>`coalesce(${c.pausedUntil} > now(), false)` })
    .from(c)
    .where(eq(c.channel, channel))
    .for('update')
  if (!row || (row.isPaused && !o.isProbe)) return
  const failures = row.failures + 1
  await tx
    .update(c)
    .set({ failures, reason: o.reason, pausedUntil: inSeconds(o.secondsOf(failures)) })
    .where(eq(c.channel, channel))
}

export async function resumeChannel(tx: Tx, channel: ChannelName): Promise<void> {
  const c = notificationChannels
  await tx
    .update(c)
    .set({ failures: 0, reason: null, pausedUntil: null })
    .where(and(eq(c.channel, channel), sql`${c.failures} > 0`))
}

const restSeconds = sql<number>`greatest(0, extract(epoch from ${notificationPauses.pausedUntil} - now()))::float8`

/** How long a receiver still rests, 0 if it may be tried again; undefined if it works. */
export async function restOf(tx: Tx, channel: ChannelName, receiver: string): Promise<number | undefined> {
  const p = notificationPauses
  const [row] = await tx
    .select({ seconds: restSeconds })
    .from(p)
    .where(and(eq(p.channel, channel), eq(p.receiver, receiver)))
  return row?.seconds
}

/**
 * Of several attempts that fail at the same time, the first counts; the longest time that the receiver asks for holds.
 * Returns how long the receiver rests from now on.
 */
export async function pauseReceiver(
  tx: Tx,
  channel: ChannelName,
  receiver: string,
  o: { reason: string; askedSeconds: number; secondsOf: (failures: number, asked: number) => number },
): Promise<number> {
  const p = notificationPauses
  const it = and(eq(p.channel, channel), eq(p.receiver, receiver))
  await tx.insert(p).values({ channel, receiver }).onConflictDoNothing()
  const [row] = await tx
    .select({ failures: p.failures, rests: sql<boolean>`${p.pausedUntil} > now()` })
    .from(p)
    .where(it)
    .for('update')
  // Nothing without the row: the sweep has just removed it, and the next failure makes it again.
  if (!row) return 0
  const failures = row.rests ? row.failures : row.failures + 1
  const until = inSeconds(row.rests ? o.askedSeconds : o.secondsOf(failures, o.askedSeconds))
  const [paused] = await tx
    .update(p)
    .set({ failures, reason: o.reason, pausedUntil: sql`greatest(${p.pausedUntil}, ${until})` })
    .where(it)
    .returning({ seconds: restSeconds })
  return paused?.seconds ?? 0
}

export async function endPauses(tx: Tx, channel: ChannelName, receivers: readonly string[]): Promise<void> {
  const p = notificationPauses
  await tx.delete(p).where(and(eq(p.channel, channel), inArray(p.receiver, [...receivers])))
}

/** Of receivers that nothing was sent to since: they may be gone. */
export async function deleteOldPauses(tx: Tx): Promise<void> {
  await tx.delete(notificationPauses).where(sql`${notificationPauses.pausedUntil} < now() - interval '1 day'`)
}

/** The age of the oldest delivery that waits to be sent and is due. */
export async function oldestPendingSeconds(tx: Tx): Promise<number> {
  const { rows } = await tx.execute<{ seconds: number }>(sql`
    select coalesce(extract(epoch from now() - min(next_attempt_at)), 0)::float8 as seconds
    from notification_deliveries where state = 'pending' and next_attempt_at <= now()`)
  return rows[0]?.seconds ?? 0
}

export async function countPaused(tx: Tx): Promise<number> {
  return tx.$count(notificationChannels, sql`${notificationChannels.failures} > 0`)
}

export const countPausedReceivers = (tx: Tx): Promise<number> =>
  tx.$count(notificationPauses, sql`${notificationPauses.pausedUntil} > now()`)
