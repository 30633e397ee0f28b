import type pg from 'pg'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { Database, Tx } from '../db/db.ts'
import { sql } from '../db/orm.ts'
import type { StoredEntry } from './archive/line.ts'
import { PURGE_OPERATION } from './archive/queries.ts'
import type { Day, Head } from './seal-plan.ts'

/** A link with the bytes that it proves: organization, number, hash, and what the entry is now. */
export type Row = [orgId: Buffer, seq: Buffer, hash: Buffer, canonical: Buffer | null]

const PAGE = 5000

/**
 * Reads the chains of a day in their order, a page ahead of the caller, all as of one moment. Binary, and the canonical
 * bytes are made by Postgres: parsing text and joining fields would cost more than the hashes. The settings keep Postgres
 * from a plan that looks up each entry, which it prefers for the first page, or without statistics of a new day. Returns
 * the heads of the day as of the same moment.
 */
export async function readChains(db: Database, day: Day, onPage: (rows: readonly Row[]) => void): Promise<Head[]> {
  const client = await db.pool.connect()
  let failure: Error | undefined
  try {
    await client.query(`begin isolation level repeatable read read only;
      set local work_mem = '128MB'; set local jit = off; set local cursor_tuple_fraction = 1;
      set local enable_nestloop = off`)
    // Bounds of the entries as values: only then are their partitions known when the query is planned.
    const { rows: bounds } = await client.query<{ oldest: string | null; newest: string | null }>(
      `select min(occurred_at)::text as oldest, max(occurred_at)::text as newest from audit_links where day = $1::date`,
      [day],
    )
    const heads = await client.query<{ org_id: Uuid; count: string; hash: Buffer }>(
      'select org_id, count::text, hash from audit_heads where day = $1::date',
      [day],
    )
    const headsOfDay = heads.rows.map(
      (row): Head => ({ orgId: row.org_id, day, count: Number(row.count), hash: row.hash }),
    )
    const { oldest, newest } = bounds[0] ?? { oldest: null, newest: null }
    if (oldest === null || newest === null) return headsOfDay
    const literal = (text: string) => `'${text.replaceAll("'", "''")}'`
    await client.query(`declare chains no scroll cursor for
      select uuid_send(l.org_id), int8send(l.seq), l.hash, audit_canonical(e)
      from audit_links l
        left join audit_log e on e.occurred_at = l.occurred_at and e.id = l.entry_id
          and e.occurred_at between ${literal(oldest)} and ${literal(newest)}
      where l.day = ${literal(day)}
      order by l.org_id, l.seq`)
    const fetchPage = () =>
      client.query<Row>({
        text: `fetch ${PAGE} from chains`,
        rowMode: 'array',
        binary: true,
      } as pg.QueryArrayConfig)
    for (let coming = fetchPage(); ; ) {
      const { rows } = await coming
      if (rows.length === 0) return headsOfDay
      coming = fetchPage()
      onPage(rows)
    }
  } catch (error) {
    failure = error as Error
    throw error
  } finally {
    await client.query('rollback').then(
      () => client.release(failure),
      (error: Error) => client.release(error),
    )
  }
}

/** The entries that these links name, by organization and number. */
export async function findLinked(
  tx: Tx,
  day: Day,
  places: readonly { orgId: Uuid; number: number }[],
): Promise<Map<string, Uuid>> {
  if (places.length === 0) return new Map()
  const { rows } = await tx.execute<{ org_id: Uuid; seq: string; entry_id: Uuid }>(sql`
    select l.org_id, l.seq::text, l.entry_id
    from unnest(${sql.param(places.map(({ orgId }) => orgId))}::uuid[],
      ${sql.param(places.map(({ number }) => number))}::bigint[]) as given(org_id, seq)
    join audit_links l using (org_id, seq) where l.day = ${day}::date`)
  return new Map(rows.map((row) => [`${row.org_id} ${row.seq}`, row.entry_id]))
}

/** The canonical bytes of archived entries, made as those of entries in the database are. */
export async function canonicalOf(tx: Tx, entries: readonly StoredEntry[]): Promise<Map<Uuid, Buffer>> {
  const columns = entries.map((entry) => ({
    id: entry.id,
    org_id: entry.orgId,
    actor_id: entry.actorId,
    action: entry.action,
    resource_type: entry.resourceType,
    resource_id: entry.resourceId,
    result: entry.result,
    request_id: entry.requestId,
    client_request_id: entry.clientRequestId,
    details: entry.details,
    occurred_at: entry.occurredAt,
    personal: entry.personal && `\\x${entry.personal.toString('hex')}`,
    key_version: entry.keyVersion,
    txid: entry.txid,
    serial: entry.serial,
  }))
  const { rows } = await tx.execute<{ id: Uuid; canonical: Buffer }>(sql`select e.id, audit_canonical(e) as canonical
    from json_populate_recordset(null::audit_log, ${JSON.stringify(columns)}::json) e`)
  return new Map(rows.map(({ id, canonical }) => [id, canonical]))
}

/** Entries of a day without a link: how many the sealer has not reached, and the first of those that it has. */
export async function findUnlinked(tx: Tx, day: Day): Promise<{ waiting: number; forged: Uuid[] }> {
  // Both sides are large, and Postgres may not know it of a new day.
  await tx.execute(sql`set local enable_nestloop = off`)
  const { rows } = await tx.execute<{ waiting: number; ids: Uuid[] | null; times: string[] | null }>(sql`
    with lost as (
      select e.id, e.occurred_at, case
          when e.serial <= 0 then c.before_at is null or (e.occurred_at, e.id) <= (c.before_at, c.before_id)
          -- No transaction has such an id yet, unless the log came from another cluster a moment ago.
          else e.serial <= c.floor or (e.txid, e.serial) <= (c.upto, c.serial)
            or (e.txid >= pg_snapshot_xmax(pg_current_snapshot())
              and c.system_identifier = (select system_identifier::text from pg_control_system())) end as passed
      from (select * from audit_log e
          where e.occurred_at >= ${day}::timestamp at time zone 'UTC'
            and e.occurred_at < (${day}::date + 1)::timestamp at time zone 'UTC'
            and not exists (select from audit_links l where l.occurred_at = e.occurred_at and l.entry_id = e.id
              and l.day between ${day}::date and ${day}::date + 1)) e,
        audit_cursor c)
    select count(*) filter (where passed is not true)::int as waiting,
      (array_agg(id order by occurred_at, id) filter (where passed))[1:1000] as ids,
      (array_agg(occurred_at::text order by occurred_at, id) filter (where passed))[1:1000] as times
    from lost`)
  await tx.execute(sql`set local enable_nestloop = on`)
  const { waiting = 0, ids = null, times = null } = rows[0] ?? {}
  if (!ids) return { waiting, forged: [] }
  // The link of an entry whose transaction lasted for days is in a later chain.
  const late = await tx.execute<{ id: Uuid }>(sql`select given.id
    from unnest(${sql.param(ids)}::uuid[], ${sql.param(times)}::timestamptz[]) as given(id, at)
    where not exists (select from audit_links l
      where l.day > ${day}::date + 1 and l.occurred_at = given.at and l.entry_id = given.id)`)
  return { waiting, forged: late.rows.map(({ id }) => id) }
}

/** People with sealed entries of a day whom `audit_actor_days` lacks: how many, and one of them. */
export interface Unnoted {
  people: number
  first: Uuid | null
}

/**
 * Of the entries that the database has of a day. Looks each person up by the key of the table, and for sealed entries of
 * those alone who are not found: those of today whom the sealer has not reached.
 */
export async function findUnnoted(tx: Tx, day: Day): Promise<Unnoted> {
  const ofDay = sql`e.occurred_at >= ${day}::timestamp at time zone 'UTC'
    and e.occurred_at < (${day}::date + 1)::timestamp at time zone 'UTC'`
  const { rows } = await tx.execute<{ people: number; first: Uuid | null }>(sql`
    with people as materialized (
      select distinct e.actor_id from audit_log e where ${ofDay} and e.actor_id is not null
    ), unnoted as materialized (
      select p.actor_id from people p
      where not exists (select from audit_actor_days d where d.actor_id = p.actor_id and d.day = ${day}::date)
    ), found as (
      select u.actor_id, exists (select from audit_log e
        join audit_links l on l.occurred_at = e.occurred_at and l.entry_id = e.id and l.day >= ${day}::date
        where ${ofDay} and e.actor_id = u.actor_id) as is_sealed
      from unnoted u
    )
    select count(*) filter (where is_sealed)::int as people, min(actor_id::text) filter (where is_sealed) as first from found`)
  return rows[0] ?? { people: 0, first: null }
}

/** Of these people, who have entries in the object of a day. A day that was purged meanwhile has lost its people rightly. */
export async function findUnnotedOf(tx: Tx, day: Day, people: Iterable<Uuid>): Promise<Unnoted> {
  const { rows } = await tx.execute<{ people: number; first: Uuid | null }>(sql`
    select count(*)::int as people, min(p.actor_id::text) as first
    from unnest(${sql.param([...people])}::uuid[]) as p(actor_id)
    where not exists (select from audit_actor_days d where d.actor_id = p.actor_id and d.day = ${day}::date)
      and not exists (select from audit_archives a where a.day = ${day}::date and a.tier = 'purged')`)
  return rows[0] ?? { people: 0, first: null }
}

/** What an entry says of the day that was purged with it. */
export interface PurgeEntry {
  day: Day
  manifest: string
}

/** The entries about purges that the database has. No person purges a day. */
export async function listPurgeEntries(tx: Tx): Promise<PurgeEntry[]> {
  const { rows } = await tx.execute<{ day: Day; manifest: string }>(sql`
    select e.details->>'day' as day, e.details->>'manifest_sha256' as manifest from audit_log e
    where e.actor_id is null and e.resource_type = 'audit_log'
      and e.details->>'operation' = ${PURGE_OPERATION}`)
  return rows
}

export interface LogState {
  sealed: number
  timeline: number
  today: Day
  /** By the clock of retention. */
  retentionDay: Day
  /** The first and the last day that has entries or chains. */
  oldest: Day | null
  newest: Day | null
}

export async function readState(tx: Tx): Promise<LogState> {
  const { rows } = await tx.execute<{
    sealed: string
    timeline: number
    today: Day
    retention_day: Day
    oldest: Day | null
    newest: Day | null
  }>(sql`select sealed::text, timeline, (now() at time zone 'UTC')::date::text as today,
      (app_now() at time zone 'UTC')::date::text as retention_day, days.oldest::text, days.newest::text
    from audit_cursor, (select min(oldest) as oldest, max(newest) as newest from (
      select (min(occurred_at) at time zone 'UTC')::date as oldest, (max(occurred_at) at time zone 'UTC')::date as newest
        from audit_log
      union all select min(day), max(day) from audit_heads
      union all select min(day), max(day) from audit_archives) known) days`)
  const [row] = rows
  if (!row) throw new Error('audit_cursor has no row')
  const { sealed, timeline, retention_day: retentionDay, today, oldest, newest } = row
  return { sealed: Number(sealed), timeline, today, retentionDay, oldest, newest }
}

export interface ClosedDays {
  /** The last one. */
  until: Day
  /** What the database noted of their anchors; null where none was put yet. */
  digests: ReadonlyMap<Day, string | null>
}

export async function readClosedDays(tx: Tx, from: Day, to: Day): Promise<ClosedDays> {
  const { rows: cursor } = await tx.execute<{ until: Day }>(sql`select closed_until::text as until from audit_cursor`)
  const [closed] = cursor
  if (!closed) throw new Error('audit_cursor has no row')

  const { rows } = await tx.execute<{ day: Day; digest: string | null }>(sql`select day::text,
      case when anchored_at is not null then anchor_sha256 end as digest
    from audit_days where day between ${from}::date and ${to}::date`)
  return { until: closed.until, digests: new Map(rows.map(({ day, digest }) => [day, digest])) }
}
