import type pg from 'pg'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { Database, Tx } from '../db/db.ts'
import { sql } from '../db/orm.ts'
import type { Day } from './seal-plan.ts'

/** A link with the bytes that it proves: organization, number, hash, and what the entry is now. */
export type Row = [orgId: Buffer, seq: Buffer, hash: Buffer, canonical: Buffer | null]

const PAGE = 5000

/**
 * Reads the chains of a day in their order, a page ahead of the caller, all as of one moment. Binary, and the canonical
 * bytes are made by Postgres: parsing text and joining fields would cost more than the hashes. The settings keep Postgres
 * from a plan that looks up each entry, which it prefers for the first page, or without statistics of a new day.
 */
export async function readChains(db: Database, day: Day, onPage: (rows: readonly Row[]) => void): Promise<void> {
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
    const { oldest, newest } = bounds[0] ?? { oldest: null, newest: null }
    if (oldest === null || newest === null) return
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
      if (rows.length === 0) return
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

/** The entry that a link names, and whether its day is still a part of the log. */
export async function findLinked(
  tx: Tx,
  day: Day,
  orgId: Uuid,
  seq: number,
): Promise<{ entryId: Uuid; hasDay: boolean } | undefined> {
  const { rows } = await tx.execute<{ entry_id: Uuid; has_day: boolean }>(sql`select l.entry_id,
      exists (select from pg_inherits i, audit_since s where i.inhparent = 'audit_log'::regclass
        and i.inhrelid = to_regclass(case when (l.occurred_at at time zone 'UTC')::date < s.log then 'audit_log_before'
          else 'audit_log_' || to_char(l.occurred_at at time zone 'UTC', 'YYYYMMDD') end)) as has_day
    from audit_links l where l.day = ${day}::date and l.org_id = ${orgId}::uuid and l.seq = ${seq}`)
  const [row] = rows
  return row && { entryId: row.entry_id, hasDay: row.has_day }
}

/** Entries of a day without a link: how many the sealer has not reached, and the first of those that it has. */
export async function findUnlinked(tx: Tx, day: Day): Promise<{ waiting: number; forged: Uuid[] }> {
  // Both sides are large, and Postgres may not know it of a new day.
  await tx.execute(sql`set local enable_nestloop = off`)
  const { rows } = await tx.execute<{ waiting: number; ids: Uuid[] | null; times: string[] | null }>(sql`
    with lost as (
      select e.id, e.occurred_at, case
          when e.serial <= 0 then c.before_at is null or (e.occurred_at, e.id) <= (c.before_at, c.before_id)
          else e.serial <= c.floor or (e.txid, e.serial) <= (c.upto, c.serial) end as passed
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

export interface LogState {
  sealed: number
  timeline: number
  closedUntil: Day
  today: Day
  /** The oldest day that has chains. */
  oldest: Day | null
  restores: { timeline: number; sealed: number; anchoredAt: string; entryId: Uuid }[]
}

export async function readState(tx: Tx): Promise<LogState> {
  const { rows } = await tx.execute<{
    sealed: string
    timeline: number
    closed_until: Day
    today: Day
    oldest: Day | null
  }>(sql`select sealed::text, timeline, closed_until::text, (now() at time zone 'UTC')::date::text as today,
    (select min(day)::text from audit_heads) as oldest from audit_cursor`)
  const [row] = rows
  if (!row) throw new Error('audit_cursor has no row')
  const restores = await tx.execute<{ timeline: number; sealed: string; anchored_at: string; entry_id: Uuid }>(
    sql`select timeline, sealed::text, anchored_at::text, entry_id from audit_restores order by timeline`,
  )
  return {
    sealed: Number(row.sealed),
    timeline: row.timeline,
    closedUntil: row.closed_until,
    today: row.today,
    oldest: row.oldest,
    restores: restores.rows.map((one) => ({
      timeline: one.timeline,
      sealed: Number(one.sealed),
      anchoredAt: one.anchored_at,
      entryId: one.entry_id,
    })),
  }
}

/** What the database noted of the anchor of a closed day; undefined where none was put yet. */
export async function findDigest(tx: Tx, day: Day): Promise<string | undefined> {
  const { rows } = await tx.execute<{ digest: string }>(sql`select anchor_sha256 as digest from audit_days
    where day = ${day}::date and anchored_at is not null`)
  return rows[0]?.digest
}

/** The hash of one link. */
export async function findHash(tx: Tx, day: Day, orgId: Uuid, seq: number): Promise<Buffer | undefined> {
  const { rows } = await tx.execute<{ hash: Buffer }>(sql`select hash from audit_links
    where day = ${day}::date and org_id = ${orgId}::uuid and seq = ${seq}`)
  return rows[0]?.hash
}
