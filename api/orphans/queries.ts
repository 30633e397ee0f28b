import type { Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { inArray, type SQL, sql } from '../db/orm.ts'
import { auditArchives, auditDayAttempts } from '../db/schema/audit-archive.ts'
import { auditExports } from '../db/schema/audit-exports.ts'
import { dataExports } from '../db/schema/data-exports.ts'
import { downloads, removedDownloads } from '../db/schema/downloads.ts'
import { events } from '../db/schema/events.ts'
import { highlights, musicTracks } from '../db/schema/highlights.ts'
import { media, objectIntents, purgedMedia } from '../db/schema/media.ts'
import { memberships } from '../db/schema/organizations.ts'
import { legalHolds, retentionRuns } from '../db/schema/retention.ts'
import { uploads } from '../db/schema/uploads.ts'
import { hasTracesIn } from '../retention/traces-queries.ts'
import type { FolderKind } from './folder-plan.ts'

type Named = (rows: readonly string[]) => SQL

const ids = (rows: readonly string[]) => sql`any(${sql.param([...rows])}::uuid[])`
const names = (rows: readonly string[]) => sql`any(${sql.param([...rows])}::text[])`

/**
 * What governs folders, by kind: the rows of the given ones. By lists, each of which has an index: for a subquery per folder
 * Postgres reads whole tables. As keepsake_worker, which sees every organization.
 */
const GOVERNED: Record<FolderKind, Named> = {
  // An upload session whose storage was released has left nothing but its media item.
  media: (rows) => sql`select id::text as row from ${media} where id = ${ids(rows)}
    union all select media_id::text from ${objectIntents} where media_id = ${ids(rows)}
    union all select media_id::text from ${uploads} where media_id = ${ids(rows)} and storage_released_at is null
    union all select media_id::text from ${purgedMedia} where media_id = ${ids(rows)}`,
  staging: (rows) => sql`select id::text as row from ${uploads} where id = ${ids(rows)}`,
  highlight: (rows) => sql`select id::text as row from ${highlights} where id = ${ids(rows)}`,
  // Files are made before there is a download.
  download: (rows) => sql`select id::text as row from ${downloads} where id = ${ids(rows)}
    union all select id::text from ${removedDownloads} where id = ${ids(rows)}
    union all select id::text from ${dataExports} where id = ${ids(rows)}
    union all select id::text from ${auditExports} where id = ${ids(rows)}`,
  track: (rows) => sql`select id::text as row from ${musicTracks} where id = ${ids(rows)}`,
  'audit-day': (rows) => sql`select object_key as row from ${auditArchives} where object_key = ${names(rows)}
    union all select left_key from ${auditArchives} where left_key = ${names(rows)}
    union all select object_key from ${auditDayAttempts} where object_key = ${names(rows)}`,
  report: (rows) => sql`select run as row from ${retentionRuns} where run = ${names(rows)}`,
}

/** Those of these rows, all of folders of one kind, that there are. */
export async function listGoverned(tx: Tx, kind: FolderKind, rows: readonly string[]): Promise<Set<string>> {
  const { rows: found } = await tx.execute<{ row: string }>(GOVERNED[kind](rows))
  return new Set(found.map(({ row }) => row))
}

/**
 * Those of these organizations that have, or may have, something that a hold keeps: a hold is on them, on one of their
 * events, or on a person who belongs to them or has left anything in them. Whose an object without a row is, no one knows. It
 * may be of any organization where the person is a member nowhere: the replay of the ledger has closed the account.
 */
export async function listHeldOrganizations(tx: Tx, ids: readonly Uuid[]): Promise<Set<Uuid>> {
  if (ids.length === 0) return new Set()
  const { rows } = await tx.execute<{ id: Uuid }>(sql`
    select g.id from unnest(${sql.param([...ids])}::uuid[]) as g(id)
    where exists (select from ${legalHolds} h where h.released_at is null and case h.kind
      when 'organization' then h.subject = g.id
      when 'event' then exists (select from ${events} e where e.id = h.subject and e.org_id = g.id)
      else exists (select from ${memberships} m where m.org_id = g.id and m.user_id = h.subject)
        or not exists (select from ${memberships} m where m.user_id = h.subject)
        or ${hasTracesIn(sql`g.id`, sql`h.subject`)} end)`)
  return new Set(rows.map(({ id }) => id))
}

/** Those of these people on whom a hold is. */
export async function listHeldPeople(tx: Tx, ids: readonly Uuid[]): Promise<Set<Uuid>> {
  if (ids.length === 0) return new Set()
  const { rows } = await tx.execute<{ subject: Uuid }>(sql`
    select h.subject from ${legalHolds} h where h.released_at is null and h.kind = 'person'
      and h.subject = any(${sql.param([...ids])}::uuid[])`)
  return new Set(rows.map(({ subject }) => subject))
}

/** What the database has of these days of the audit log, by day. */
export async function listDays(tx: Tx, days: readonly string[]) {
  const { day, tier, objectKey, bytes, sha256 } = auditArchives
  const rows = await tx
    .select({ day, tier, objectKey, bytes, sha256 })
    .from(auditArchives)
    .where(inArray(day, [...days]))
  return new Map(rows.map((row) => [row.day, row]))
}

/** In milliseconds. */
export async function readClock(tx: Tx): Promise<number> {
  const { rows } = await tx.execute<{ ms: number }>(
    sql`select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms`,
  )
  return rows[0]?.ms ?? 0
}
