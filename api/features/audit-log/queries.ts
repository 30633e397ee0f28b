import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Place, StoredEntry } from '../../audit/archive/line.ts'
import { entryColumns } from '../../audit/archive/queries.ts'
import { addDays, type Day } from '../../audit/archive/segments-plan.ts'
import type { Tx } from '../../db/db.ts'
import { type SQL, sql } from '../../db/orm.ts'
import type { EntryFilter } from './filter.ts'

const NIL = '00000000-0000-0000-0000-000000000000'

/** How far the log is sealed: where the sealer is, and the time before which it has sealed every entry. */
export interface Seal {
  upto: string
  serial: string
  floor: string
  beforeAt: string | null
  beforeId: Uuid
  until: string
}

const us = (at: SQL) => sql`to_char(${at} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

export async function findSeal(tx: Tx): Promise<Seal> {
  const { rows } = await tx.execute<{ closedUntil: Day } & Omit<Seal, 'until'>>(sql`
    select upto::text as upto, serial::text as serial, floor::text as floor, ${us(sql`before_at`)} as "beforeAt",
      coalesce(before_id, ${NIL}::uuid) as "beforeId", closed_until::text as "closedUntil" from audit_cursor`)
  const [cursor] = rows
  if (!cursor) throw new Error('audit_cursor has no row')
  const { closedUntil, ...seal } = cursor
  // What is not sealed is of an open day, or was late for a closed one and counts as sealed with the rest of that day.
  // As a set of its own: for a plain min() Postgres would walk the sealed entries of the day by time.
  const { rows: open } = await tx.execute<{ until: string }>(sql`
    with open as materialized (
      select e.occurred_at from audit_log e
      where e.occurred_at >= ${`${closedUntil}T00:00:00Z`}::timestamptz and e.occurred_at <= now()
        and (e.txid, e.serial) > (${seal.upto}::xid8, ${seal.serial}::bigint) and e.serial > ${seal.floor}::bigint
      order by e.txid, e.serial limit 1000)
    select ${us(sql`least(min(occurred_at), audit_settled_until())`)} as until from open`)
  const until = seal.beforeAt ?? open[0]?.until
  if (until === undefined) throw new Error('the database has no time')
  return { ...seal, until }
}

/** The time of the first entry that the database has. */
export async function findOldest(tx: Tx): Promise<Date | undefined> {
  const { rows } = await tx.execute<{ ms: number | null }>(
    sql`select (extract(epoch from min(occurred_at)) * 1000)::float8 as ms from audit_log`,
  )
  const ms = rows[0]?.ms
  return ms == null ? undefined : new Date(ms)
}

const isSealed = (s: Seal): SQL => sql`case when e.serial = 0
  then ${s.beforeAt}::timestamptz is null or (e.occurred_at, e.id) <= (${s.beforeAt}::timestamptz, ${s.beforeId}::uuid)
  else (e.txid, e.serial) <= (${s.upto}::xid8, ${s.serial}::bigint) or e.serial <= ${s.floor}::bigint end`

/** On which days a person did something, the latest first. */
export async function listDaysOf(tx: Tx, actorId: Uuid, range: { from: Day | undefined; to: Day }): Promise<Day[]> {
  const from = range.from === undefined ? sql`` : sql`and day >= ${range.from}::date`
  const { rows } = await tx.execute<{ day: Day }>(sql`select day::text as day from audit_actor_days
    where actor_id = ${actorId}::uuid and day <= ${range.to}::date ${from} order by audit_actor_days.day desc`)
  return rows.map(({ day }) => day)
}

/** A stretch of days that the database has. */
export interface Stretch {
  /** Null: whatever is older. */
  from: Day | null
  /** Included. */
  to: Day
}

export interface HotWanted extends Stretch {
  filter: EntryFilter
  seal: Seal
  /** What `addressIndex` holds for the address of the filter. */
  addresses: readonly Buffer[]
  after: Place | undefined
  limit: number
  /** How many entries the query looks at, at most. */
  scan: number
}

export type HotEntry = StoredEntry & { sealed: boolean; ipAddress: string | null; userAgent: string | null }

export interface HotPage {
  rows: HotEntry[]
  /** The last entry that was looked at; undefined when all of the stretch was. */
  reached: Place | undefined
}

/** By an index: the bounds that prune partitions, the keyset, the person or the organization. */
function indexed({ from, to, filter: f, after }: Pick<HotWanted, 'from' | 'to' | 'filter' | 'after'>): SQL {
  const parts = [sql`e.occurred_at < ${`${addDays(to, 1)}T00:00:00Z`}::timestamptz`]
  if (from !== null) parts.push(sql`e.occurred_at >= ${`${from}T00:00:00Z`}::timestamptz`)
  if (f.from !== undefined) parts.push(sql`e.occurred_at >= ${f.from}::timestamptz`)
  if (f.to !== undefined) parts.push(sql`e.occurred_at < ${f.to}::timestamptz`)
  // The row comparison alone would prune no partition.
  if (after) {
    parts.push(sql`e.occurred_at <= ${after.at}::timestamptz
      and (e.occurred_at, e.id) < (${after.at}::timestamptz, ${after.id}::uuid)`)
  }
  if (f.actorId !== undefined) parts.push(sql`e.actor_id = ${f.actorId}::uuid`)
  else if (f.orgId !== undefined) parts.push(sql`e.org_id = ${f.orgId}::uuid`)
  return sql.join(parts, sql` and `)
}

/** What is compared entry by entry. */
function rest({ filter: f, seal, addresses }: Pick<HotWanted, 'filter' | 'seal' | 'addresses'>): SQL {
  const parts: SQL[] = []
  if (f.actorId !== undefined && f.orgId !== undefined) parts.push(sql`e.org_id = ${f.orgId}::uuid`)
  if (f.actions !== undefined) parts.push(sql`e.action = any(${sql.param([...f.actions])}::text[])`)
  if (f.result !== undefined) parts.push(sql`e.result = ${f.result}`)
  if (f.resourceType !== undefined) parts.push(sql`e.resource_type = ${f.resourceType}`)
  if (f.resourceId !== undefined) parts.push(sql`e.resource_id = ${f.resourceId}`)
  if (f.ipAddress !== undefined) {
    parts.push(sql`e.address_index = any(${sql.param([...addresses])}::bytea[])`)
  }
  if (!f.includeUnsealed) parts.push(isSealed(seal))
  return parts.length === 0 ? sql`true` : sql.join(parts, sql` and `)
}

/**
 * The latest entries of a stretch that match. Looks at `scan` entries in the order of an index and no more, so that a
 * filter without an index costs a bounded time, and says how far it came.
 */
export async function listHot(tx: Tx, wanted: HotWanted): Promise<HotPage> {
  const { rows } = await tx.execute<Record<string, unknown>>(sql`
    with scanned as materialized (
      select e.*, row_number() over (order by e.occurred_at desc, e.id desc) as place from audit_log e
      where ${indexed(wanted)} order by e.occurred_at desc, e.id desc limit ${wanted.scan})
    select ${entryColumns()}, ${isSealed(wanted.seal)} as sealed, e.ip_address as "ipAddress", e.user_agent as "userAgent",
      (${rest(wanted)}) as "isMatch", e.place::int as place
    from scanned e where (${rest(wanted)}) or e.place = (select max(place) from scanned)
    order by e.place limit ${wanted.limit}`)
  const read = rows as unknown as (HotEntry & { isMatch: boolean; place: number })[]
  const last = read.at(-1)
  const isFull = read.length === wanted.limit && last?.isMatch === true
  const isWhole = last === undefined || (!isFull && last.place < wanted.scan)
  return {
    rows: read.filter(({ isMatch }) => isMatch).map(({ isMatch: _, place: __, ...row }) => ({ ...row, chain: null })),
    reached: isWhole ? undefined : { at: last.occurredAt, id: last.id },
  }
}

/** How many sealed entries there are, without any filter. `exact`: no day is counted in two places. */
export async function countAll(tx: Tx): Promise<{ total: number; exact: boolean }> {
  const { rows } = await tx.execute<{ total: string; exact: boolean }>(sql`
    with hot as (
      select coalesce(sum(h.count), 0) as entries, min(h.day) as first from audit_heads h
      where not exists (select from audit_archives a where a.day = h.day))
    select (hot.entries + coalesce((select sum(entries) from audit_archives where tier <> 'purged'), 0))::text as total,
      not exists (select from audit_archives a where a.late > 0 and a.day >= hot.first - 7) as exact
    from hot`)
  return { total: Number(rows[0]?.total ?? 0), exact: rows[0]?.exact ?? true }
}

/** How many entries of a stretch match, at most `most`. Gives up with `query_canceled` after `ms`. */
export async function countHot(
  tx: Tx,
  wanted: Pick<HotWanted, 'from' | 'to' | 'filter' | 'seal' | 'addresses'> & { most: number; ms: number },
): Promise<number> {
  await tx.execute(sql`select set_config('statement_timeout', ${String(Math.max(1, Math.round(wanted.ms)))}, true)`)
  const { rows } = await tx.execute<{ n: number }>(sql`
    select count(*)::int as n from (select from audit_log e
      where ${indexed({ ...wanted, after: undefined })} and ${rest(wanted)} limit ${wanted.most}) found`)
  return rows[0]?.n ?? 0
}
