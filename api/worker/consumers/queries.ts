import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { eq, type SQL, sql } from '../../db/orm.ts'
import { consumerPositions, eventStreams, inbox, parkedEvents, suspectedEvents } from '../../db/schema/consumers.ts'
import { outbox } from '../../db/schema/outbox.ts'

/** A message of the stream, as it is marked in the inbox or parked. */
export interface Message {
  messageId: Uuid
  subject: string
  streamSeq: number
  /** Null where the message is not an event of ours. */
  aggregateId: Uuid | null
  /** As JSON: the CloudEvent, or the text as a string. */
  stored: string
}

/**
 * Marks the messages as received. `fresh` are those that were not marked before; `behind` those that must wait, because
 * an earlier event of their aggregate is parked: they are not marked.
 */
export async function takeFresh(
  tx: Tx,
  consumer: string,
  messages: readonly Pick<Message, 'messageId' | 'aggregateId'>[],
): Promise<{ fresh: Set<Uuid>; behind: Set<Uuid> }> {
  const ids = sql.param(messages.map((m) => m.messageId))
  const aggregates = sql.param(messages.map((m) => m.aggregateId))
  // `distinct on`: an id that is twice in a batch must have one effect.
  const { rows } = await tx.execute<{ id: Uuid; waits: boolean }>(sql`
    with given as (
      select distinct on (id) id, aggregate
      from unnest(${ids}::uuid[], ${aggregates}::uuid[]) as message (id, aggregate)
    ), behind as (
      select id from given where exists (
        select from ${parkedEvents} as parked where parked.consumer = ${consumer} and parked.aggregate_id = given.aggregate)
    ), fresh as (
      insert into ${inbox} (consumer, message_id)
      select ${consumer}, id from given where id not in (select id from behind) order by id
      on conflict do nothing returning message_id
    )
    select message_id as id, false as waits from fresh
    union all
    select id, true from behind
    where not exists (select from ${inbox} as known where known.consumer = ${consumer} and known.message_id = behind.id)`)
  return {
    fresh: new Set(rows.flatMap(({ id, waits }) => (waits ? [] : [id]))),
    behind: new Set(rows.flatMap(({ id, waits }) => (waits ? [id] : []))),
  }
}

export async function isReceived(tx: Tx, consumer: string, messageId: Uuid): Promise<boolean> {
  const { rows } = await tx.execute(
    sql`select from ${inbox} where consumer = ${consumer} and message_id = ${messageId}`,
  )
  return rows.length > 0
}

const inSeconds = (seconds: number | null) => sql`now() + make_interval(secs => ${seconds}::float8)`

/**
 * `reason`: null for messages that wait behind an earlier one of their aggregate. `againSeconds`: when the next attempt
 * is due; null where an administrator has to ask for it.
 */
export async function park(
  tx: Tx,
  consumer: string,
  messages: readonly Message[],
  { reason, attempts, againSeconds = null }: { reason: string | null; attempts: number; againSeconds?: number | null },
): Promise<void> {
  if (messages.length === 0) return
  await tx.execute(sql`
    insert into ${parkedEvents} (consumer, message_id, subject, stream_seq, aggregate_id, reason, attempts, replay_at, event)
    select ${consumer}, message_id, subject, stream_seq, aggregate_id, ${reason}::text, ${attempts}::integer,
      ${inSeconds(againSeconds)}, event
    from unnest(${sql.param(messages.map((m) => m.messageId))}::uuid[], ${sql.param(messages.map((m) => m.subject))}::text[],
      ${sql.param(messages.map((m) => m.streamSeq))}::bigint[], ${sql.param(messages.map((m) => m.aggregateId))}::uuid[],
      ${sql.param(messages.map((m) => m.stored))}::jsonb[]) with ordinality
      as message (message_id, subject, stream_seq, aggregate_id, event, place)
    order by place
    on conflict do nothing`)
  await forgetSuspicion(tx, consumer, messages)
}

/** Counts an attempt at a message that may have killed the process, and returns how many there were before. */
export async function countAttempt(tx: Tx, consumer: string, messageId: Uuid): Promise<number> {
  const { rows } = await tx.execute<{ before: number }>(sql`
    insert into ${suspectedEvents} as suspected (consumer, message_id, attempts) values (${consumer}, ${messageId}, 1)
    on conflict (consumer, message_id) do update set attempts = suspected.attempts + 1, last_at = now()
    returning attempts - 1 as before`)
  return rows[0]?.before ?? 0
}

export async function forgetSuspicion(
  tx: Tx,
  consumer: string,
  messages: readonly Pick<Message, 'messageId'>[],
): Promise<void> {
  await tx.execute(sql`delete from ${suspectedEvents}
    where consumer = ${consumer} and message_id = any(${sql.param(messages.map((m) => m.messageId))}::uuid[])`)
}

/** No earlier message of its aggregate is parked. */
const IS_FIRST = sql`not exists (select from ${parkedEvents} as older where older.consumer = parked.consumer
  and older.aggregate_id = parked.aggregate_id and older.position < parked.position)`

/**
 * The first parked messages that are to be handled now: a replay was asked for, the statement took too long some time
 * ago, or it waited behind one that is gone. Only the oldest of an aggregate is. Several, because a query looks at all that
 * the consumer has parked.
 */
export async function nextReplays(tx: Tx, consumer: string, limit: number): Promise<ParkedMessage[]> {
  const { rows } = await tx.execute<ParkedMessage & Record<string, unknown>>(sql`
    select ${PARKED} from ${parkedEvents} as parked
    where parked.consumer = ${consumer} and (parked.replay_at <= now() or parked.reason is null) and ${IS_FIRST}
    order by parked.position limit ${limit}`)
  return rows
}

/**
 * Parked messages of these types whose reason begins so, and of which no replay is asked for, in the order in which they
 * were parked, behind the position `after`.
 */
export async function findUnread(
  tx: Tx,
  o: { consumer: string; types: readonly string[]; reason: string; after: number; limit: number },
): Promise<{ messageId: Uuid; position: number; event: unknown }[]> {
  const { rows } = await tx.execute<{ messageId: Uuid; position: number; event: unknown }>(sql`
    select message_id as "messageId", position::float8 as position, event from ${parkedEvents}
    where consumer = ${o.consumer} and starts_with(reason, ${o.reason}) and replay_at is null
      and event->>'type' = any(${sql.param(o.types)}::text[]) and position > ${o.after}
    order by position limit ${o.limit}`)
  return rows
}

/** Asks for a replay of these, where none is asked for, and returns of how many. */
export async function replayUnread(tx: Tx, consumer: string, messageIds: readonly Uuid[]): Promise<number> {
  const { rowCount } = await tx.execute(sql`update ${parkedEvents} set replay_at = now()
    where consumer = ${consumer} and message_id = any(${sql.param(messageIds)}::uuid[]) and replay_at is null`)
  return rowCount ?? 0
}

/** Marks a parked message as received and deletes it; false where it was received or deleted in the meantime. */
export async function unpark(tx: Tx, consumer: string, messageId: Uuid): Promise<boolean> {
  const { rows } = await tx.execute(sql`
    with gone as (
      delete from ${parkedEvents} where consumer = ${consumer} and message_id = ${messageId} returning message_id
    )
    insert into ${inbox} (consumer, message_id) select ${consumer}, message_id from gone
    on conflict do nothing returning message_id`)
  return rows.length > 0
}

/** Ends a request for a replay, but not one that came while this attempt was under way. */
export async function markReplayFailed(
  tx: Tx,
  { consumer, messageId, replayAt }: ParkedMessage,
  { reason, attempts, againSeconds }: { reason: string; attempts: number; againSeconds: number | null },
): Promise<void> {
  await tx.execute(sql`
    update ${parkedEvents} set reason = ${reason}, attempts = attempts + ${attempts}, last_at = now(),
      replay_at = case when replay_at is not distinct from ${replayAt}::timestamptz then ${inSeconds(againSeconds)}
        else replay_at end
    where consumer = ${consumer} and message_id = ${messageId}`)
}

export interface ParkedMessage extends Message {
  consumer: string
  /** Null while it waits for an earlier one of its aggregate. */
  reason: string | null
  attempts: number
  /** When the next attempt is due, because an administrator asked for it, or a statement took too long. */
  replayAt: string | null
  event: unknown
}

const PARKED = sql`parked.consumer, parked.message_id as "messageId", parked.subject,
  parked.stream_seq::float8 as "streamSeq", parked.aggregate_id as "aggregateId", parked.reason, parked.attempts,
  parked.event, parked.event::text as stored, to_json(parked.replay_at)#>>'{}' as "replayAt"`

export interface ListedMessage extends ParkedMessage {
  firstAt: string
  lastAt: string
  /** The first parked message of its aggregate, perhaps itself. */
  firstId: Uuid
  /** How many later ones of its aggregate are parked. */
  behind: number
}

/** In the order in which they were parked. */
export async function findParked(tx: Tx, where: SQL): Promise<ListedMessage[]> {
  const { rows } = await tx.execute<ListedMessage & Record<string, unknown>>(sql`
    select ${PARKED}, to_json(parked.first_at)#>>'{}' as "firstAt", to_json(parked.last_at)#>>'{}' as "lastAt",
      coalesce((select first.message_id from ${parkedEvents} as first where first.consumer = parked.consumer
        and first.aggregate_id = parked.aggregate_id order by first.position limit 1), parked.message_id) as "firstId",
      (select count(*)::int from ${parkedEvents} as later where later.consumer = parked.consumer
        and later.aggregate_id = parked.aggregate_id and later.position > parked.position) as behind
    from ${parkedEvents} as parked where ${where} order by parked.position`)
  return rows
}

export async function countParked(tx: Tx): Promise<{ consumer: string; parked: number }[]> {
  const { rows } = await tx.execute<{ consumer: string; parked: number }>(
    sql`select consumer, count(*)::int as parked from ${parkedEvents} group by consumer`,
  )
  return rows
}

const LOCKS = 0x6b_65_65_70
const lockOf = (consumer: string) => sql`hashtext(${`consumer ${consumer}`})`

/**
 * For `pg_try_advisory_lock`, on a connection that keeps it. A server in recovery has advisory locks as well, which no
 * process on the primary sees. `history` names the cluster and its timeline, which begins the name of a WAL segment.
 * https://www.postgresql.org/docs/18/continuous-archiving.html#BACKUP-TIMELINES
 */
export const TAKE_TURN = `select pg_try_advisory_lock(${LOCKS}, hashtext('consumer ' || $1)) as taken,
  pg_backend_pid() as pid, pg_is_in_recovery() as recovers,
  case when not pg_is_in_recovery() then
    (select system_identifier from pg_control_system()) || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
  end as history`
export const END_TURN = `select pg_advisory_unlock(${LOCKS}, hashtext('consumer ' || $1))`

/** Whether the connection with this process id of the server still has the turn of the consumer. */
export async function hasTurn(tx: Tx, consumer: string, pid: number): Promise<boolean> {
  const { rows } = await tx.execute(sql`
    select from pg_locks where locktype = 'advisory' and granted and pid = ${pid} and objsubid = 2
      and database = (select oid from pg_database where datname = current_database())
      and classid = ${LOCKS}::oid and objid = (${lockOf(consumer)}::bigint & 4294967295)::oid`)
  return rows.length > 0
}

export interface ConsumerPosition {
  /** Of the database, as `TAKE_TURN` names it. */
  history: string
  seq: number
  unconfirmedTo: number
}

export async function findPosition(tx: Tx, consumer: string): Promise<ConsumerPosition | undefined> {
  const { history, streamSeq: seq, unconfirmedTo } = consumerPositions
  const of = eq(consumerPositions.consumer, consumer)
  const [row] = await tx.select({ history, seq, unconfirmedTo }).from(consumerPositions).where(of)
  return row
}

export async function keepPosition(tx: Tx, consumer: string, position: ConsumerPosition): Promise<void> {
  const { seq: streamSeq, ...rest } = position
  const values = { ...rest, streamSeq }
  await tx
    .insert(consumerPositions)
    .values({ consumer, ...values })
    .onConflictDoUpdate({ target: consumerPositions.consumer, set: values })
}

export async function movePosition(tx: Tx, consumer: string, streamSeq: number): Promise<void> {
  await tx.update(consumerPositions).set({ streamSeq }).where(eq(consumerPositions.consumer, consumer))
}

/** Which of these events the outbox has. It keeps them as long as the stream does. */
export async function findAppended(tx: Tx, ids: readonly Uuid[]): Promise<Set<Uuid>> {
  const { rows } = await tx.execute<{ id: Uuid }>(
    sql`select id from ${outbox} where id = any(${sql.param(ids)}::uuid[])`,
  )
  return new Set(rows.map(({ id }) => id))
}

/** The name of this installation: when its database was made, which a copy of the database keeps. */
export async function installationOf(tx: Tx): Promise<string> {
  const { rows } = await tx.execute<{ name: string }>(sql`
    select to_char(min(applied_at) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as name from schema_migrations`)
  return rows[0]?.name ?? ''
}

/** Remembers when the stream was made; true where another one was known. */
export async function isNewStream(tx: Tx, name: string, createdAt: Date): Promise<boolean> {
  const at = createdAt.toISOString()
  await tx.execute(sql`insert into ${eventStreams} (name, created_at) values (${name}, ${at}) on conflict do nothing`)
  const { rows } = await tx.execute(sql`select from ${eventStreams} where name = ${name} and created_at <> ${at}`)
  return rows.length > 0
}

/** Positions in the stream of before say nothing about this one. */
export async function rememberStream(tx: Tx, name: string, createdAt: Date): Promise<void> {
  await tx.update(consumerPositions).set({ streamSeq: 0, unconfirmedTo: 0 })
  await tx.execute(sql`update ${eventStreams} set created_at = ${createdAt.toISOString()} where name = ${name}`)
}

/**
 * Has events that were published in the last week and before `before` published again, the oldest first. Returns how
 * many; call again while it returns `batch`.
 */
export async function repeatPublished(tx: Tx, before: string, batch: number): Promise<number> {
  const { rowCount } = await tx.execute(sql`
    update ${outbox} set published_at = null, stream_seq = null, next_attempt_at = now(), attempts = 0, is_repeated = true
    where id = any(array(select id from ${outbox}
      where published_at > now() - interval '7 days' and published_at < ${before}::timestamptz
      order by published_at limit ${batch}))`)
  return rowCount ?? 0
}

/**
 * The latest events that were published, with their positions in the stream: more than can be under way at once, which the
 * server may have taken just before it is asked for them. None from the time in which the stream deletes the oldest.
 */
export async function findPublished(tx: Tx): Promise<{ id: Uuid; seq: number }[]> {
  const { rows } = await tx.execute<{ id: Uuid; seq: number }>(sql`
    select id, stream_seq::float8 as seq from ${outbox}
    where published_at > now() - interval '6 days' and stream_seq is not null order by published_at desc limit 200`)
  return rows
}

/**
 * Ends the leases of events whose publication is under way: they may have gone into a stream that was lost. What is
 * marked as published from here on is in the stream of now.
 */
export async function endLeases(tx: Tx): Promise<void> {
  await tx.execute(sql`update ${outbox} set attempts = attempts + 1, next_attempt_at = now()
    where published_at is null and next_attempt_at > now()`)
}

export async function timeOf(tx: Tx): Promise<string> {
  const { rows } = await tx.execute<{ now: string }>(sql`select now()::text as now`)
  return rows[0]?.now ?? ''
}

/** Ends the wait of events whose publication failed. */
export async function hurryPublication(tx: Tx): Promise<void> {
  await tx.execute(sql`update ${outbox} set next_attempt_at = now()
    where published_at is null and next_attempt_at > now() and last_error like 'publish:%'`)
}

const old = (table: SQL, column: SQL, days: number, batch: number) => sql`delete from ${table}
  where ctid = any(array(select ctid from ${table} where ${column} < now() - make_interval(days => ${days}) limit ${batch}))`

/** The stream and the outbox keep events for 7 days each: what comes later is not the same event. */
export async function deleteOldInbox(tx: Tx, batch: number): Promise<number> {
  return (await tx.execute(old(sql`${inbox}`, sql`received_at`, 15, batch))).rowCount ?? 0
}

/** They hold personal data. */
export async function deleteOldParked(tx: Tx, batch: number): Promise<number> {
  return (await tx.execute(old(sql`${parkedEvents}`, sql`first_at`, 30, batch))).rowCount ?? 0
}

export async function deleteOldSuspected(tx: Tx, batch: number): Promise<number> {
  return (await tx.execute(old(sql`${suspectedEvents}`, sql`last_at`, 15, batch))).rowCount ?? 0
}
