import type { Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { sql } from '../db/orm.ts'
import type { Box } from './personal-data.ts'
import { chainName, type Day, type Head, type Link, type Unsealed } from './seal-plan.ts'

/** Where the sealer is, and what it may do now. */
export interface Cursor {
  upto: string
  serial: string
  floor: string
  /** The position among entries of before the cursor existed; null when all are sealed. */
  beforeAt: string | null
  beforeId: Uuid | null
  closedUntil: Day
  sealed: number
  timeline: number
  /** Whether the database was dumped and restored into another cluster since the last pass. */
  isMoved: boolean
  /** Transactions below it are over. */
  horizon: string
  /** The last day that may be closed. */
  closable: Day
  /** The time of the transaction, ISO 8601. */
  now: string
}

interface CursorRow extends Record<string, unknown> {
  upto: string
  serial: string
  floor: string
  before_at: string | null
  before_id: Uuid | null
  closed_until: Day
  sealed: string
  timeline: number
  is_moved: boolean
  horizon: string
  closable: Day
  now: string
}

/** Minutes after midnight (UTC) at which a day is closed: transactions of the evening have ended by then. */
const CLOSING_MINUTES = 10

const CURSOR = sql`select upto::text, serial::text, floor::text, before_at::text, before_id, closed_until::text, sealed::text,
  timeline, to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as now, system_identifier <> (select system_identifier::text from pg_control_system()) as is_moved,
  pg_snapshot_xmin(pg_current_snapshot())::text as horizon,
  ((now() at time zone 'UTC' - make_interval(mins => ${CLOSING_MINUTES}))::date - 1)::text as closable
  from audit_cursor`

/**
 * Locks the cursor: only one sealer works. Undefined while another one does. Reads the horizon before any entry: the other
 * order would skip what commits in between.
 */
export async function takeCursor(tx: Tx): Promise<Cursor | undefined> {
  const { rows } = await tx.execute<CursorRow>(sql`${CURSOR} for update skip locked`)
  return rows.map(cursorOf)[0]
}

/** Waits for a sealer that works at the moment. */
export async function lockCursor(tx: Tx): Promise<Cursor> {
  const { rows } = await tx.execute<CursorRow>(sql`${CURSOR} for update`)
  const [cursor] = rows.map(cursorOf)
  if (!cursor) throw new Error('audit_cursor has no row')
  return cursor
}

const cursorOf = (row: CursorRow): Cursor => ({
  upto: row.upto,
  serial: row.serial,
  floor: row.floor,
  beforeAt: row.before_at,
  beforeId: row.before_id,
  closedUntil: row.closed_until,
  sealed: Number(row.sealed),
  timeline: row.timeline,
  isMoved: row.is_moved,
  horizon: row.horizon,
  closable: row.closable,
  now: row.now,
})

/** An entry with its place in the order of sealing. */
export interface Listed extends Unsealed {
  actorId: Uuid | null
  txid: string
  serial: string
  ipAddress: string | null
  userAgent: string | null
}

const LISTED = sql`e.id, e.org_id, e.actor_id, (e.occurred_at at time zone 'UTC')::date::text as day,
  e.occurred_at::text as at, e.txid::text, e.serial::text, e.ip_address, e.user_agent, audit_canonical(e) as canonical`

interface ListedRow extends Record<string, unknown> {
  id: Uuid
  org_id: Uuid | null
  actor_id: Uuid | null
  day: Day
  at: string
  txid: string
  serial: string
  ip_address: string | null
  user_agent: string | null
  canonical: Buffer
}

const listedOf = (row: ListedRow): Listed => ({
  id: row.id,
  orgId: row.org_id,
  actorId: row.actor_id,
  day: row.day,
  at: row.at,
  txid: row.txid,
  serial: row.serial,
  ipAddress: row.ip_address,
  userAgent: row.user_agent,
  canonical: row.canonical,
})

/** No transaction writes an entry so long after its begin, which is the time of the entry. */
const LATEST_DAYS = 7
const DAY_MS = 86_400_000

/**
 * Entries before this time are sealed: see `closableNow`. The clock of the server may have run ahead. A value, not an
 * expression: Postgres then plans for the partitions since, and neither plans for nor locks all others.
 */
const oldestUnsealed = ({ closedUntil, now }: Cursor) => {
  const open = Math.min(Date.parse(closedUntil), Date.parse(now))
  return sql`${new Date(open - LATEST_DAYS * DAY_MS).toISOString()}::timestamptz`
}

/**
 * The last day that may be closed so that what is not sealed yet stays in reach. A transaction that is never ended, of any
 * database of the server, can hold entries back for longer than a day is open.
 */
export async function closableNow(tx: Tx, cursor: Cursor): Promise<Day> {
  const { upto, serial, floor, closable } = cursor
  // Materialized: for the first one by time, Postgres would read the entries of all these days in the order of time.
  const { rows } = await tx.execute<{ day: Day | null }>(sql`
    with waiting as materialized (select e.occurred_at from audit_log e
      where (e.txid, e.serial) > (${upto}::xid8, ${serial}::bigint) and e.serial > ${floor}::bigint
        and e.occurred_at >= ${oldestUnsealed(cursor)})
    select ((min(occurred_at) at time zone 'UTC')::date + ${LATEST_DAYS - 1}::integer)::text as day from waiting`)
  const day = rows[0]?.day
  return day && day < closable ? day : closable
}

/** The next entries that no running transaction can still overtake. */
export async function listUnsealed(tx: Tx, cursor: Cursor, limit: number): Promise<Listed[]> {
  const { upto, serial, floor, horizon } = cursor
  const { rows } = await tx.execute<ListedRow>(sql`select ${LISTED} from audit_log e
    where (e.txid, e.serial) > (${upto}::xid8, ${serial}::bigint) and e.txid < ${horizon}::xid8
      and e.serial > ${floor}::bigint and e.occurred_at >= ${oldestUnsealed(cursor)}
    order by e.txid, e.serial limit ${limit}`)
  return rows.map(listedOf)
}

/** The next entries of before the cursor existed, by time: they have no transaction id. */
export async function listBefore(tx: Tx, { beforeAt, beforeId }: Cursor, limit: number): Promise<Listed[]> {
  const id = beforeId ?? '00000000-0000-0000-0000-000000000000'
  const { rows } = await tx.execute<ListedRow>(sql`select ${LISTED} from audit_log e
    where (e.occurred_at, e.id) > (${beforeAt}::timestamptz, ${id}::uuid) and e.occurred_at >= ${beforeAt}::timestamptz
      and e.serial = 0
    order by e.occurred_at, e.id limit ${limit}`)
  return rows.map(listedOf)
}

/**
 * Entries without a link, by time, in a log that came from another cluster: those that its sealer had not reached, and
 * those that were written here. Whatever is older than the open days has its link, unless it lies behind the cursor. Two
 * queries, so that each reads few partitions; a link is never in the chain of an earlier day than its entry's.
 */
export async function listUnlinked(tx: Tx, cursor: Cursor, limit: number): Promise<Listed[]> {
  const { upto, serial, floor, closedUntil } = cursor
  const since = sql`${new Date(closedUntil).toISOString()}::timestamptz`
  const unlinked = sql`e.serial > 0 and not exists (select from audit_links l
    where l.occurred_at = e.occurred_at and l.entry_id = e.id and l.day >= ${closedUntil}::date)`
  const { rows } = await tx.execute<ListedRow>(sql`select * from (
      (select ${LISTED} from audit_log e where e.occurred_at >= ${since} and ${unlinked}
        order by e.occurred_at, e.serial limit ${limit})
      union all
      (select ${LISTED} from audit_log e
        where e.occurred_at >= ${oldestUnsealed(cursor)} and e.occurred_at < ${since} and ${unlinked}
          and (e.txid, e.serial) > (${upto}::xid8, ${serial}::bigint) and e.serial > ${floor}::bigint
        order by e.occurred_at, e.serial limit ${limit})) unsealed
    order by at::timestamptz, serial::bigint limit ${limit}`)
  return rows.map(listedOf)
}

/** The same entries with their canonical bytes of now. */
export async function readAgain(tx: Tx, entries: readonly Listed[]): Promise<Map<Uuid, Buffer>> {
  const { rows } = await tx.execute<{ id: Uuid; canonical: Buffer }>(sql`select e.id, audit_canonical(e) as canonical
    from unnest(${ids(entries)}::uuid[], ${times(entries)}::timestamptz[]) as given(id, at)
    join audit_log e on e.id = given.id and e.occurred_at = given.at`)
  return new Map(rows.map(({ id, canonical }) => [id, canonical]))
}

const ids = (entries: readonly Listed[]) => sql.param(entries.map(({ id }) => id))
const times = (entries: readonly Listed[]) => sql.param(entries.map(({ at }) => at))

/** Replaces the plain text of entries by boxes; undefined ones leave nothing. */
export async function encryptEntries(
  tx: Tx,
  entries: readonly Listed[],
  boxes: readonly (Box | undefined)[],
): Promise<void> {
  await tx.execute(sql`select audit_encrypt(${ids(entries)}::uuid[], ${times(entries)}::timestamptz[],
    ${sql.param(boxes.map((box) => box?.personal ?? null))}::bytea[],
    ${sql.param(boxes.map((box) => box?.keyVersion ?? null))}::integer[],
    ${sql.param(boxes.map((box) => box?.addressIndex ?? null))}::bytea[])`)
}

/** The ends of these chains, as far as they have begun. */
export async function findHeads(tx: Tx, chains: readonly { orgId: Uuid; day: Day }[]): Promise<Map<string, Head>> {
  const { rows } = await tx.execute<HeadRow>(sql`select h.org_id, h.day::text, h.count::text, h.hash
    from unnest(${sql.param(chains.map(({ orgId }) => orgId))}::uuid[],
      ${sql.param(chains.map(({ day }) => day))}::date[]) as given(org_id, day)
    join audit_heads h using (org_id, day)`)
  return new Map(rows.map((row) => [chainName(row.org_id, row.day), headOf(row)]))
}

interface HeadRow extends Record<string, unknown> {
  org_id: Uuid
  day: Day
  count: string
  hash: Buffer
}
const headOf = ({ org_id: orgId, day, count, hash }: HeadRow): Head => ({ orgId, day, count: Number(count), hash })

/** The ends of all chains of these days, by organization. */
export async function listHeads(tx: Tx, from: Day, to: Day): Promise<Head[]> {
  const { rows } = await tx.execute<HeadRow>(sql`select org_id, day::text, count::text, hash from audit_heads
    where day between ${from}::date and ${to}::date order by day, org_id`)
  return rows.map(headOf)
}

export async function insertLinks(tx: Tx, links: readonly Link[]): Promise<void> {
  await tx.execute(sql`insert into audit_links (day, org_id, seq, occurred_at, entry_id, hash)
    select * from unnest(${sql.param(links.map(({ day }) => day))}::date[],
      ${sql.param(links.map(({ orgId }) => orgId))}::uuid[], ${sql.param(links.map(({ seq }) => seq))}::bigint[],
      ${sql.param(links.map(({ at }) => at))}::timestamptz[], ${sql.param(links.map(({ entryId }) => entryId))}::uuid[],
      ${sql.param(links.map(({ hash }) => hash))}::bytea[])`)
}

export async function moveHeads(tx: Tx, heads: readonly Head[]): Promise<void> {
  await tx.execute(sql`insert into audit_heads (day, org_id, count, hash)
    select * from unnest(${sql.param(heads.map(({ day }) => day))}::date[],
      ${sql.param(heads.map(({ orgId }) => orgId))}::uuid[], ${sql.param(heads.map(({ count }) => count))}::bigint[],
      ${sql.param(heads.map(({ hash }) => hash))}::bytea[])
    on conflict (day, org_id) do update set count = excluded.count, hash = excluded.hash`)
}

/** For readers of one person's actions. */
export async function noteActorDays(tx: Tx, entries: readonly Listed[]): Promise<void> {
  const noted = new Map(
    entries.flatMap(({ actorId, day }) => (actorId ? [[`${actorId} ${day}`, { actorId, day }]] : [])),
  )
  const rows = [...noted.values()]
  if (rows.length === 0) return
  await tx.execute(sql`insert into audit_actor_days (actor_id, day)
    select * from unnest(${sql.param(rows.map(({ actorId }) => actorId))}::uuid[],
      ${sql.param(rows.map(({ day }) => day))}::date[])
    on conflict do nothing`)
}

export async function moveCursor(tx: Tx, to: { txid: string; serial: string }, links: number): Promise<void> {
  await tx.execute(
    sql`update audit_cursor set upto = ${to.txid}::xid8, serial = ${to.serial}::bigint, sealed = sealed + ${links}`,
  )
}

/** `to`: the last entry that was sealed; null when none is left. */
export async function moveBefore(tx: Tx, to: { at: string; id: Uuid } | null, links: number): Promise<void> {
  await tx.execute(sql`update audit_cursor set before_at = ${to?.at ?? null}::timestamptz,
    before_id = ${to?.id ?? null}::uuid, sealed = sealed + ${links}`)
}

export async function lockLog(tx: Tx): Promise<void> {
  await tx.execute(sql`select audit_lock()`)
}

export async function countLinks(tx: Tx, links: number): Promise<void> {
  await tx.execute(sql`update audit_cursor set sealed = sealed + ${links}`)
}

/**
 * Begins to count anew: entries up to now are below the floor, and a transaction that runs now can only write above it. Its
 * id is not below the horizon, which the id of this transaction could be above. The sequence has the last serial: no index
 * finds it, and every change waits meanwhile.
 */
export async function rebaseCursor(tx: Tx): Promise<void> {
  await tx.execute(sql`update audit_cursor set upto = pg_snapshot_xmin(pg_current_snapshot()), serial = 0,
    floor = (select case when is_called then last_value else 0 end from audit_log_serial_seq),
    system_identifier = (select system_identifier::text from pg_control_system())`)
}

/** Closes all open days until this one. */
export async function closeDays(tx: Tx, until: Day): Promise<void> {
  await tx.execute(sql`insert into audit_days (day)
    select day::date from audit_cursor, generate_series(closed_until + 1, ${until}::date, interval '1 day') day
    on conflict do nothing`)
  await tx.execute(sql`update audit_cursor set closed_until = ${until}::date`)
}

/** Closed days whose anchor is not in the object store, oldest first, each with the digest of the day before. */
export async function listUnanchored(tx: Tx, limit: number): Promise<{ day: Day; previous: string | null }[]> {
  const { rows } = await tx.execute<{ day: Day; previous: string | null }>(sql`select d.day::text,
      before.anchor_sha256 as previous
    from audit_days d left join audit_days before on before.day = d.day - 1
    where d.anchored_at is null order by d.day limit ${limit}`)
  return rows
}

/** The digest of a day's anchor and of the one before; null where none is noted. */
export async function findDigests(tx: Tx, day: Day): Promise<{ digest: string | null; previous: string | null }> {
  const { rows } = await tx.execute<{ digest: string | null; previous: string | null }>(sql`select
    (select anchor_sha256 from audit_days where day = ${day}::date and anchored_at is not null) as digest,
    (select anchor_sha256 from audit_days where day = ${day}::date - 1) as previous`)
  return rows[0] ?? { digest: null, previous: null }
}

export async function markAnchored(tx: Tx, day: Day, digest: string): Promise<void> {
  await tx.execute(sql`update audit_days set anchored_at = now(), anchor_sha256 = ${digest} where day = ${day}::date`)
}

export async function markOpenAnchored(tx: Tx): Promise<void> {
  await tx.execute(sql`update audit_cursor set anchored_at = now()`)
}

/** Whether an hour began since the open days were anchored. */
export async function isOpenDue(tx: Tx): Promise<boolean> {
  const { rows } = await tx.execute<{ due: boolean }>(sql`select anchored_at is null
    or date_trunc('hour', anchored_at, 'UTC') < date_trunc('hour', now(), 'UTC') as due from audit_cursor`)
  return rows[0]?.due ?? false
}

export interface Restore {
  timeline: number
  /** Of what was restored. */
  from: number
  sealed: number
  anchoredSealed: number
  anchoredAt: string
  entryId: Uuid
}

export async function insertRestore(tx: Tx, restore: Restore): Promise<void> {
  await tx.execute(sql`insert into audit_restores (timeline, from_timeline, sealed, anchored_sealed,
      anchored_at, entry_id)
    values (${restore.timeline}, ${restore.from}, ${restore.sealed}, ${restore.anchoredSealed}, ${restore.anchoredAt}::timestamptz,
      ${restore.entryId}::uuid)`)
  await tx.execute(sql`update audit_cursor set timeline = ${restore.timeline}, anchored_at = null`)
}

/** By timeline. */
export async function listRestores(tx: Tx): Promise<Restore[]> {
  const { rows } = await tx.execute<{
    timeline: number
    from: number
    sealed: string
    anchored: string
    at: string
    entry_id: Uuid
  }>(sql`select timeline, from_timeline as from, sealed::text, anchored_sealed::text as anchored, anchored_at::text as at,
    entry_id from audit_restores order by timeline`)
  return rows.map((row) => ({
    timeline: row.timeline,
    from: row.from,
    sealed: Number(row.sealed),
    anchoredSealed: Number(row.anchored),
    anchoredAt: row.at,
    entryId: row.entry_id,
  }))
}

/** How far the log of this database is, as its anchors count it. */
export async function readPlace(tx: Tx): Promise<{ timeline: number; sealed: number }> {
  const { rows } = await tx.execute<{ timeline: number; sealed: string }>(
    sql`select timeline, sealed::text from audit_cursor`,
  )
  const [row] = rows
  if (!row) throw new Error('audit_cursor has no row')
  return { timeline: row.timeline, sealed: Number(row.sealed) }
}

/** All links that were ever made. */
export async function countSealed(tx: Tx): Promise<number> {
  const { rows } = await tx.execute<{ sealed: string }>(sql`select sealed::text from audit_cursor`)
  return Number(rows[0]?.sealed ?? 0)
}

/**
 * Seconds since the oldest entry without a link was written. After a restore into another cluster nearly the whole log has
 * transaction ids above the cursor: the bounds keep a scrape from walking it.
 */
export async function measureSeal(tx: Tx): Promise<number> {
  const cursor = await tx.execute<{ day: Day; upto: string; serial: string; floor: string }>(
    sql`select closed_until::text as day, upto::text, serial::text, floor::text from audit_cursor`,
  )
  const [{ day, upto, serial, floor } = { day: '', upto: '0', serial: '0', floor: '0' }] = cursor.rows
  if (day === '') return 0
  const { rows } = await tx.execute<{ seconds: number }>(sql`select coalesce((
      select extract(epoch from clock_timestamp() - e.occurred_at) from audit_log e
      where (e.txid, e.serial) > (${upto}::xid8, ${serial}::bigint) and e.txid < pg_snapshot_xmax(pg_current_snapshot())
        and e.serial > ${floor}::bigint and e.occurred_at >= ${day}::timestamp at time zone 'UTC'
      order by e.txid, e.serial limit 1), 0)::float8 as seconds`)
  return rows[0]?.seconds ?? 0
}

export async function measureOldestWriter(tx: Tx): Promise<number> {
  const { rows } = await tx.execute<{ seconds: number }>(sql`select audit_oldest_writer_seconds() as seconds`)
  return rows[0]?.seconds ?? 0
}

/** How many days after today have their partitions. */
export async function countDaysAhead(tx: Tx): Promise<number> {
  const { rows } = await tx.execute<{ days: number }>(sql`select audit_days_ahead() as days`)
  return rows[0]?.days ?? -1
}

export async function makeDays(tx: Tx, ahead: number): Promise<number> {
  const { rows } = await tx.execute<{ days: number }>(sql`select audit_make_days(${ahead}) as days`)
  return rows[0]?.days ?? -1
}

export async function countUnanchored(tx: Tx): Promise<number> {
  const { rows } = await tx.execute<{ n: number }>(
    sql`select count(*)::int as n from audit_days where anchored_at is null`,
  )
  return rows[0]?.n ?? 0
}
