import { hash } from 'node:crypto'
import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, asc, desc, eq, gte, lte, sql } from '../../db/orm.ts'
import { auditEntries, auditSince } from '../../db/schema/audit.ts'
import { type AuditArchiveRow, auditArchives } from '../../db/schema/audit-archive.ts'
import type { WrittenFile } from './day-file.ts'
import type { Place, StoredEntry } from './line.ts'
import type { Member } from './members-plan.ts'
import { addDays, type Day } from './segments-plan.ts'

export type ArchiveTier = AuditArchiveRow['tier']

/** The columns of an entry, as `StoredEntry` names them. `e` is the alias of audit_log. */
const ENTRY = sql.raw(`e.id, e.org_id as "orgId", e.actor_id as "actorId", e.action, e.resource_type as "resourceType",
  e.resource_id as "resourceId", e.result, e.request_id as "requestId", e.client_request_id as "clientRequestId", e.details,
  to_char(e.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as "occurredAt", e.personal,
  e.key_version as "keyVersion", e.txid::text as txid, e.serial::text as serial`)
export const entryColumns = () => ENTRY

const dayStart = (day: Day) => sql`${`${day}T00:00:00Z`}::timestamptz`

/** From which day on the log has a partition of its own for each day. */
export async function findSince(tx: Tx): Promise<Day> {
  const [row] = await tx.select({ log: auditSince.log }).from(auditSince)
  if (!row) throw new Error('audit_since has no row')
  return row.log
}

/** Archived days in a range, both ends included, with their tiers. */
export async function listArchivedDays(tx: Tx, range: { from: Day | null; to: Day }): Promise<Map<Day, ArchiveTier>> {
  const from = range.from === null ? undefined : gte(auditArchives.day, range.from)
  const rows = await tx
    .select({ day: auditArchives.day, tier: auditArchives.tier })
    .from(auditArchives)
    .where(and(from, lte(auditArchives.day, range.to)))
  return new Map(rows.map(({ day, tier }) => [day, tier]))
}

/** Where a day lies; undefined for one that is read from the database. */
export async function findArchive(tx: Tx, day: Day): Promise<AuditArchiveRow | undefined> {
  const [row] = await tx.select().from(auditArchives).where(eq(auditArchives.day, day))
  return row
}

/** Entries of one sealed day in the order of its file, behind `after`, without their places in the chains. */
export async function listForFile(
  tx: Tx,
  o: { day: Day; after: Pick<StoredEntry, 'actorId' | 'occurredAt' | 'id'> | undefined; limit: number },
): Promise<StoredEntry[]> {
  const { day, after, limit } = o
  const range = sql`e.occurred_at >= ${dayStart(day)} and e.occurred_at < ${dayStart(addDays(day, 1))}`
  const behind = (at: Place) => sql`(e.occurred_at, e.id) > (${at.at}::timestamptz, ${at.id}::uuid)`
  const place = after && { at: after.occurredAt, id: after.id }
  // Two statements: with both conditions in one, Postgres would sort the day for each page instead of using its index.
  const named =
    after?.actorId === null
      ? []
      : await rowsOf(
          tx,
          sql`${range} and e.actor_id is not null ${
            after && place
              ? sql`and e.actor_id >= ${after.actorId}::uuid and (e.actor_id > ${after.actorId}::uuid or ${behind(place)})`
              : sql``
          } order by e.actor_id, e.occurred_at, e.id limit ${limit}`,
        )
  if (named.length === limit) return named
  const from = after?.actorId === null && place ? sql`and ${behind(place)}` : sql``
  const others = sql`${range} and e.actor_id is null ${from} order by e.occurred_at, e.id limit ${limit - named.length}`
  return [...named, ...(await rowsOf(tx, others))]
}

async function rowsOf(tx: Tx, rest: ReturnType<typeof sql>): Promise<StoredEntry[]> {
  const { rows } = await tx.execute(sql`select ${ENTRY} from ${auditEntries} e where ${rest}`)
  return rows.map((row) => ({ ...(row as unknown as StoredEntry), chain: null }))
}

/**
 * The places of these entries in the chains, by entry. `from`: the earliest chain to look in. An entry's chain is that of
 * its own day, or of a later one.
 */
export async function findChains(
  tx: Tx,
  entries: readonly Place[],
  o: { from: Day; to: Day | null },
): Promise<Map<Uuid, { day: Day; seq: number }>> {
  if (entries.length === 0) return new Map()
  const until = o.to === null ? sql`` : sql`and l.day <= ${o.to}::date`
  const { rows } = await tx.execute<{ id: Uuid; day: string; seq: string }>(sql`
    select l.entry_id as id, l.day::text as day, l.seq::text as seq
    from unnest(${sql.param(entries.map(({ at }) => at))}::timestamptz[], ${sql.param(entries.map(({ id }) => id))}::uuid[])
      as given(at, id)
    join audit_links l on l.occurred_at = given.at and l.entry_id = given.id
    where l.day >= ${o.from}::date ${until}`)
  return new Map(rows.map(({ id, day, seq }) => [id, { day, seq: Number(seq) }]))
}

/**
 * How much of a day the database has: entries, those of them in the day's own chains, all links of these chains, and the sum
 * of their ends.
 */
export async function countEntries(tx: Tx, day: Day) {
  const { rows } = await tx.execute<{ entries: number; own: number; links: number; heads: number }>(sql`select
    (select count(*) from ${auditEntries} e
      where e.occurred_at >= ${dayStart(day)} and e.occurred_at < ${dayStart(addDays(day, 1))})::float8 as entries,
    own::float8, links::float8, (select coalesce(sum(h.count), 0) from audit_heads h where h.day = ${day}::date)::float8 as heads
    from (select count(*) as links, count(*) filter (where l.occurred_at >= ${dayStart(day)}) as own
      from audit_links l where l.day = ${day}::date) chains`)
  const [row] = rows
  if (!row) throw new Error('a count has no row')
  return row
}

/** What the manifest of a day promises, whatever becomes of its tier and key. */
const manifestHash = (o: {
  day: Day
  entries: number
  bytes: number
  sha256: string
  previousSha256: string
}): string => hash('sha256', ['1', o.day, o.entries, o.bytes, o.sha256, o.previousSha256].join('|'), 'hex')

export const memberRow = (one: Member): AuditArchiveRow['members'][number] => [one.actor, one.at, one.offset]

/** In `details` of the entry that `auditDays` writes with the purge of a day. */
export const PURGE_OPERATION = 'purge audit day'

const FIRST = '0'.repeat(64)

/**
 * Switches a day: readers ask its object from the commit on. The object must be there. False for a day that was switched
 * before; then its row stays.
 */
export async function insertArchive(
  tx: Tx,
  o: { day: Day; tier: ArchiveTier; objectKey: string; file: WrittenFile },
): Promise<boolean> {
  const { day, tier, objectKey, file } = o
  // One at a time: each names the one before.
  await tx.execute(sql`select pg_advisory_xact_lock(7305811242)`)
  const [before] = await tx
    .select({ sha256: auditArchives.manifestSha256 })
    .from(auditArchives)
    .orderBy(desc(auditArchives.archivedAt), desc(auditArchives.day))
    .limit(1)
  const previousSha256 = before?.sha256 ?? FIRST
  const { entries, late, bytes, sha256 } = file
  const row = {
    day,
    tier,
    objectKey,
    entries,
    late,
    bytes,
    sha256,
    members: file.members.map(memberRow),
    previousSha256,
    manifestSha256: manifestHash({ day, entries, bytes, sha256, previousSha256 }),
    // Not the beginning of this transaction, which may be before the one that it waited for.
    archivedAt: sql`clock_timestamp()`,
  }
  const made = await tx.insert(auditArchives).values(row).onConflictDoNothing().returning({ day: auditArchives.day })
  return made.length === 1
}

/** In the order in which they were archived, which is that of their hashes. */
export const listManifests = (tx: Tx): Promise<AuditArchiveRow[]> =>
  tx.select().from(auditArchives).orderBy(asc(auditArchives.archivedAt), asc(auditArchives.day))

export const isManifestWhole = (row: AuditArchiveRow): boolean => manifestHash(row) === row.manifestSha256
