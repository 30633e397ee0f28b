import type { Id, Uuid } from '../../../lib/contract/ids.ts'
import type { Place } from '../../audit/archive/line.ts'
import type { Tx } from '../../db/db.ts'
import { and, eq, ne, type PgUpdateSetSource, type SQL, sql } from '../../db/orm.ts'
import { type AuditExportRow, auditExports } from '../../db/schema/audit-exports.ts'

export type { AuditExportRow } from '../../db/schema/audit-exports.ts'
export type ExportId = Id<'export'>

export async function insertExport(
  tx: Tx,
  row: Pick<AuditExportRow, 'id' | 'userId' | 'format' | 'filters'> & { until: string },
): Promise<AuditExportRow> {
  const [made] = await tx
    .insert(auditExports)
    .values({ ...row, until: sql`${row.until}::timestamptz` })
    .returning()
  if (!made) throw new Error('an export was not inserted')
  return made
}

/** In the scope of its person. */
export async function findExport(tx: Tx, o: { id: ExportId; userId: Uuid }): Promise<AuditExportRow | undefined> {
  const [row] = await tx
    .select()
    .from(auditExports)
    .where(and(eq(auditExports.id, o.id), eq(auditExports.userId, o.userId)))
  return row
}

export interface Lease {
  holder: Uuid
  seconds: number
}

const ends = (seconds: number) => sql`now() + make_interval(secs => ${seconds})`

/** One that waits, or whose worker died. */
export async function claimExport(tx: Tx, { holder, seconds }: Lease): Promise<AuditExportRow | undefined> {
  const due = tx.$with('due').as(
    tx
      .select({ id: auditExports.id })
      .from(auditExports)
      .where(
        sql`${auditExports.state} = 'processing' and ${auditExports.nextAttemptAt} <= now()
            and (${auditExports.leaseUntil} is null or ${auditExports.leaseUntil} <= now())`,
      )
      .orderBy(auditExports.nextAttemptAt)
      .limit(1)
      .for('update', { skipLocked: true }),
  )
  const [row] = await tx
    .with(due)
    .update(auditExports)
    .set({ holder, leaseUntil: ends(seconds), failures: sql`${auditExports.failures} + 1` })
    .where(eq(auditExports.id, sql`(select id from ${due})`))
    .returning()
  return row
}

const held = (id: ExportId, holder: Uuid) =>
  and(eq(auditExports.id, id), eq(auditExports.holder, holder), eq(auditExports.state, 'processing'))

type Change = PgUpdateSetSource<typeof auditExports>

/** False for a worker whose export has ended or is another worker's. */
async function change(tx: Tx, id: ExportId, holder: Uuid, set: Change): Promise<boolean> {
  const changed = await tx.update(auditExports).set(set).where(held(id, holder)).returning({ id: auditExports.id })
  return changed.length === 1
}

/** Everything from the beginning, into a new upload. */
export const beginUpload = (
  tx: Tx,
  id: ExportId,
  { holder, seconds }: Lease,
  o: { objectKey: string; uploadId: string },
): Promise<boolean> =>
  change(tx, id, holder, {
    ...o,
    attempts: sql`${auditExports.attempts} + 1`,
    etags: [],
    entries: 0,
    bytes: 0,
    positionAt: null,
    positionId: null,
    leaseUntil: ends(seconds),
  })

export interface Stored {
  number: number
  etag: string
  bytes: number
  entries: number
  position: Place
}

/** The part is in the store: what is in it need not be read again. */
export const recordPart = (tx: Tx, id: ExportId, { holder, seconds }: Lease, part: Stored): Promise<boolean> =>
  change(tx, id, holder, {
    etags: sql`array_append(${auditExports.etags}, ${part.etag})`,
    entries: sql`${auditExports.entries} + ${part.entries}`,
    bytes: sql`${auditExports.bytes} + ${part.bytes}`,
    positionAt: part.position.at,
    positionId: part.position.id,
    leaseUntil: ends(seconds),
    failures: 0,
  })

export const extendLease = (tx: Tx, id: ExportId, { holder, seconds }: Lease): Promise<boolean> =>
  change(tx, id, holder, { leaseUntil: ends(seconds) })

/** The address of the filter is of a person and no longer needed. */
const WITHOUT_ADDRESS = sql`${auditExports.filters} - 'ipAddress'`

export const markCompleted = (
  tx: Tx,
  id: ExportId,
  holder: Uuid,
  o: { objectKey: string; entries: number; bytes: number; expiresAt: Date },
): Promise<boolean> =>
  change(tx, id, holder, {
    ...o,
    state: 'completed',
    filters: WITHOUT_ADDRESS,
    completedAt: sql`now()`,
    uploadId: null,
    etags: [],
    holder: null,
    leaseUntil: null,
    error: null,
  })

export const markFailed = (tx: Tx, id: ExportId, holder: Uuid, error: string): Promise<boolean> =>
  change(tx, id, holder, {
    state: 'failed',
    filters: WITHOUT_ADDRESS,
    error,
    uploadId: null,
    etags: [],
    holder: null,
    leaseUntil: null,
  })

export const postpone = (
  tx: Tx,
  id: ExportId,
  holder: Uuid,
  o: { error: string | null; seconds: number; restart: boolean },
): Promise<boolean> =>
  change(tx, id, holder, {
    error: o.error,
    nextAttemptAt: ends(o.seconds),
    holder: null,
    leaseUntil: null,
    ...(o.restart && { uploadId: null }),
    // A worker that stops has not failed.
    ...(o.error === null && { failures: sql`greatest(0, ${auditExports.failures} - 1)` }),
  })

/** Seconds until there is work; undefined without any. */
export async function secondsToWork(tx: Tx): Promise<number | undefined> {
  const { rows } = await tx.execute<{ seconds: number | null }>(sql`
    select extract(epoch from min(greatest(next_attempt_at, coalesce(lease_until, next_attempt_at))) - now())::float8 as seconds
    from audit_exports where state = 'processing'`)
  return rows[0]?.seconds ?? undefined
}

/** Forgets exports that are over. */
export async function deleteOldExports(tx: Tx, o: { days: number; limit: number }): Promise<number> {
  const { rowCount } = await tx.execute(sql`delete from audit_exports where id in (
    select id from audit_exports where state <> 'processing' and created_at < now() - make_interval(days => ${o.days})
    limit ${o.limit})`)
  return rowCount ?? 0
}

/** Those of an erased person, the ones under way too. */
export const deleteExportsOf = (tx: Tx, userId: Uuid): Promise<{ id: ExportId; userId: Uuid }[]> =>
  tx
    .delete(auditExports)
    .where(eq(auditExports.userId, userId))
    .returning({ id: auditExports.id, userId: auditExports.userId })

/**
 * Whether an export can have entries of the person, which alone have something of the person in clear: its filter names no
 * other person, and the person did something on one of its days. `audit_actor_days` does not know any more who did something
 * on a day that was purged since, nor yet whose entries are to be sealed.
 */
function canHaveEntriesOf(userId: Uuid): SQL {
  const from = sql`(audit_exports.filters->>'from')::timestamptz`
  const to = sql`least((audit_exports.filters->>'to')::timestamptz, audit_exports.until)`
  const hasDay = (day: SQL) => sql`${day} between
    coalesce((${from} at time zone 'UTC')::date, '-infinity') and (${to} at time zone 'UTC')::date`
  return sql`coalesce(audit_exports.filters->>'actorId', ${userId}::text) = ${userId}::text and (
    exists (select from audit_actor_days d where d.actor_id = ${userId}::uuid and ${hasDay(sql`d.day`)})
    or exists (select from audit_archives a where a.tier = 'purged' and ${hasDay(sql`a.day`)})
    or exists (select from audit_log e where e.actor_id = ${userId}::uuid
      and e.occurred_at >= coalesce(${from}, '-infinity') and e.occurred_at <= ${to}))`
}

/**
 * Takes the exports of all administrators that are under way and can have entries of the person from their workers, and has
 * them begin again; the others go on, however often people are erased. Run before `deleteFinishedExports`: one that is
 * completed in between is deleted there. Returns the keys of their unfinished files.
 */
export async function restartExports(tx: Tx, userId: Uuid): Promise<string[]> {
  const { rows } = await tx.execute<{ key: string | null }>(sql`
    with before as materialized (select id, object_key from audit_exports
      where state = 'processing' and ${canHaveEntriesOf(userId)} for update)
    update audit_exports set attempts = attempts + 1, object_key = null, upload_id = null, etags = '{}', entries = 0, bytes = 0,
      position_at = null, position_id = null, holder = null, lease_until = null, next_attempt_at = now()
    from before where audit_exports.id = before.id returning before.object_key as key`)
  return rows.flatMap(({ key }) => (key === null ? [] : [key]))
}

/** Those of all administrators that are over and can have entries of the person. */
export const deleteFinishedExports = (tx: Tx, userId: Uuid): Promise<{ id: ExportId; userId: Uuid }[]> =>
  tx
    .delete(auditExports)
    .where(and(ne(auditExports.state, 'processing'), canHaveEntriesOf(userId)))
    .returning({ id: auditExports.id, userId: auditExports.userId })

/** Whether an export has this object: that of a worker that was too late may belong to the one that took over its upload. */
export async function isObjectOf(tx: Tx, id: ExportId, objectKey: string): Promise<boolean> {
  const [row] = await tx.select({ key: auditExports.objectKey }).from(auditExports).where(eq(auditExports.id, id))
  return row?.key === objectKey
}

export const countProcessing = async (tx: Tx): Promise<number> => {
  const { rows } = await tx.execute<{ n: number }>(
    sql`select count(*)::int as n from audit_exports where state = 'processing'`,
  )
  return rows[0]?.n ?? 0
}
