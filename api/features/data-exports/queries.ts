import type { Id, Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, asc, desc, eq, gt, inArray, isNotNull, isNull, ne, sql } from '../../db/orm.ts'
import {
  type DataExportEntryRow,
  type DataExportPartRow,
  type DataExportRow,
  dataExportEntries,
  dataExportParts,
  dataExportPeople,
  dataExports,
  type ExportFailure,
} from '../../db/schema/data-exports.ts'

export type { DataExportEntryRow, DataExportPartRow, DataExportRow } from '../../db/schema/data-exports.ts'
export type ExportId = Id<'export'>

/** An export of an event has states of its own: see migration 0090. */
const PLANNING = ['planning', 'planning_event'] as const
const MAKING = ['making', 'making_event'] as const
const RUNNING = [...PLANNING, ...MAKING] as const
const isPlanning = inArray(dataExports.state, [...PLANNING])
const isMaking = inArray(dataExports.state, [...MAKING])

/** What an export is of: a person's own data, or an event. */
export type Subject = EventOfExport | 'own'
type EventOfExport = { [K in 'eventId' | 'orgId' | 'eventTitle' | 'eventOwnerId']: NonNullable<DataExportRow[K]> }
const isOf = (about: Subject) =>
  about === 'own' ? isNull(dataExports.eventId) : eq(dataExports.eventId, about.eventId)

/** How long an export that is over is shown. */
const SHOWN_DAYS = 30

/** Two requests at the same time of one person come one after the other. */
export async function lockExportsOf(tx: Tx, userId: Uuid): Promise<void> {
  await tx.execute(sql`select pg_advisory_xact_lock(hashtextextended('data_exports ' || ${userId}::text, 0))`)
}

export async function findRunning(tx: Tx, userId: Uuid, about: Subject): Promise<DataExportRow | undefined> {
  const [row] = await tx
    .select()
    .from(dataExports)
    .where(and(eq(dataExports.userId, userId), isOf(about), inArray(dataExports.state, [...RUNNING])))
  return row
}

/** Seconds until this person may start another one of this kind; 0: now. */
export async function secondsToNext(
  tx: Tx,
  userId: Uuid,
  o: { most: number; days: number; ofEvents: boolean },
): Promise<number> {
  const { rows } = await tx.execute<{ seconds: number }>(sql`
    select extract(epoch from created_at + make_interval(days => ${o.days}) - now())::float8 as seconds from data_exports
    where user_id = ${userId} and (event_id is not null) = ${o.ofEvents}
      and created_at > now() - make_interval(days => ${o.days})
    order by created_at desc offset ${o.most - 1} limit 1`)
  return Math.max(0, Math.ceil(rows[0]?.seconds ?? 0))
}

export async function insertExport(
  tx: Tx,
  { about, ...row }: { id: ExportId; userId: Uuid; about: Subject },
): Promise<DataExportRow> {
  const of = about === 'own' ? { state: 'planning' as const } : { state: 'planning_event' as const, ...about }
  const [inserted] = await tx
    .insert(dataExports)
    .values({ ...row, ...of })
    .returning()
  if (!inserted) throw new Error('no row was inserted')
  return inserted
}

/** Of this person and this kind, and not removed. */
export async function findExport(
  tx: Tx,
  o: { id: ExportId; userId: Uuid; ofEvents: boolean; lock?: boolean },
): Promise<DataExportRow | undefined> {
  const e = dataExports
  const found = tx
    .select()
    .from(e)
    .where(and(eq(e.id, o.id), eq(e.userId, o.userId), isOfKind(o.ofEvents), ne(e.state, 'removed')))
  const [row] = o.lock ? await found.for('update') : await found
  return row
}

const isOfKind = (ofEvents: boolean) => (ofEvents ? isNotNull : isNull)(dataExports.eventId)

/** The latest first. */
export const listExports = (tx: Tx, userId: Uuid, o: { limit: number; ofEvents: boolean }): Promise<DataExportRow[]> =>
  tx
    .select()
    .from(dataExports)
    .where(
      and(
        eq(dataExports.userId, userId),
        isOfKind(o.ofEvents),
        ne(dataExports.state, 'removed'),
        gt(dataExports.createdAt, sql`now() - make_interval(days => ${SHOWN_DAYS})`),
      ),
    )
    .orderBy(desc(dataExports.createdAt), desc(dataExports.id))
    .limit(o.limit)

export const listParts = (tx: Tx, ids: readonly ExportId[]): Promise<DataExportPartRow[]> =>
  tx
    .select()
    .from(dataExportParts)
    .where(inArray(dataExportParts.exportId, [...ids]))
    .orderBy(asc(dataExportParts.exportId), asc(dataExportParts.number))

/** From the commit on no worker has it: what is made of it is refused at its last step. */
export async function markRemoved(tx: Tx, id: ExportId): Promise<void> {
  await tx.update(dataExports).set({ state: 'removed', holder: null, leaseUntil: null }).where(eq(dataExports.id, id))
}

// The worker's

interface Lease {
  holder: Uuid
  seconds: number
}
const until = (seconds: number) => sql`now() + make_interval(secs => ${seconds}::float8)`

/** Claims an export that is to be planned: a new one, or one whose worker has died. */
export async function claimPlan(tx: Tx, lease: Lease): Promise<DataExportRow | undefined> {
  const e = dataExports
  const [due] = await tx
    .select({ id: e.id })
    .from(e)
    .where(sql`${isPlanning} and ${e.nextAttemptAt} <= now() and coalesce(${e.leaseUntil} <= now(), true)`)
    .orderBy(asc(e.workedAt))
    .limit(1)
    .for('update', { skipLocked: true })
  if (!due) return undefined
  const [row] = await tx
    .update(e)
    .set({
      attempts: sql`${e.attempts} + 1`,
      holder: lease.holder,
      leaseUntil: until(lease.seconds),
      workedAt: sql`now()`,
    })
    .where(eq(e.id, due.id))
    .returning()
  return row
}

/** Locks the export while this worker plans it; false when it does not any more. */
export async function holdPlan(tx: Tx, id: ExportId, lease: Lease): Promise<DataExportRow | undefined> {
  const e = dataExports
  const [row] = await tx
    .update(e)
    .set({ leaseUntil: until(lease.seconds) })
    .where(and(eq(e.id, id), isPlanning, eq(e.holder, lease.holder)))
    .returning()
  return row
}

/** The last media item that is planned. */
export async function findLastEntry(tx: Tx, id: ExportId): Promise<Uuid | undefined> {
  const n = dataExportEntries
  const [row] = await tx
    .select({ mediaId: n.mediaId })
    .from(n)
    .where(and(eq(n.exportId, id), isNull(n.highlightId)))
    .orderBy(desc(n.mediaId))
    .limit(1)
  return row?.mediaId
}

/** The last film that is planned. */
export async function findLastFilm(tx: Tx, id: ExportId): Promise<Uuid | undefined> {
  const n = dataExportEntries
  const [row] = await tx
    .select({ highlightId: n.highlightId })
    .from(n)
    .where(and(eq(n.exportId, id), isNotNull(n.highlightId)))
    .orderBy(desc(n.highlightId))
    .limit(1)
  return row?.highlightId ?? undefined
}

/**
 * Records whose data are taken up, in the transaction that reads them. A trigger refuses people whose accounts are being
 * closed; the next attempt does not read what they left.
 */
export async function addPeople(
  tx: Tx,
  { id, userId }: Pick<DataExportRow, 'id' | 'userId'>,
  taken: readonly { people?: readonly Uuid[] }[],
): Promise<void> {
  const ids = [...new Set(taken.flatMap(({ people = [] }) => people))].filter((one) => one !== userId)
  if (ids.length === 0) return
  await tx.execute(sql`insert into ${dataExportPeople} (export_id, user_id)
    select ${id}::uuid, named from unnest(${sql.param(ids)}::uuid[]) as named on conflict do nothing`)
}

/** The highest numbers of files that wanted these paths, by hash. */
export async function findHighest(tx: Tx, id: ExportId, wanted: readonly string[]): Promise<Map<string, number>> {
  const { rows } = await tx.execute<{ key: string; nth: number }>(sql`
    select wanted_key as key, max(nth) as nth from data_export_entries
    where export_id = ${id} and wanted_key = any(${sql.param([...new Set(wanted)])}::text[]) group by wanted_key`)
  return new Map(rows.map(({ key, nth }) => [key, nth]))
}

export async function findTakenPaths(tx: Tx, id: ExportId, keys: readonly string[]): Promise<Set<string>> {
  const rows = await tx
    .select({ key: dataExportEntries.pathKey })
    .from(dataExportEntries)
    .where(and(eq(dataExportEntries.exportId, id), inArray(dataExportEntries.pathKey, [...keys])))
  return new Set(rows.map(({ key }) => key))
}

export async function insertEntries(tx: Tx, rows: readonly DataExportEntryRow[]): Promise<void> {
  if (rows.length > 0) await tx.insert(dataExportEntries).values([...rows])
}

/** Adds what was planned to parts, which are made where they are missing. */
export async function addToParts(
  tx: Tx,
  { id, userId }: Pick<DataExportRow, 'id' | 'userId'>,
  parts: readonly { number: number; files: number; bytes: number }[],
): Promise<void> {
  if (parts.length === 0) return
  const p = dataExportParts
  await tx
    .insert(p)
    .values(parts.map((part) => ({ exportId: id, userId, ...part })))
    .onConflictDoUpdate({
      target: [p.exportId, p.number],
      set: { files: sql`${p.files} + excluded.files`, bytes: sql`${p.bytes} + excluded.bytes` },
    })
}

export async function setOpenPart(tx: Tx, id: ExportId, openPart: number): Promise<void> {
  await tx.update(dataExports).set({ openPart }).where(eq(dataExports.id, id))
}

const MAKING_OF = sql`case when ${dataExports.eventId} is null then 'making' else 'making_event' end`

export async function markPlanned(tx: Tx, id: ExportId): Promise<void> {
  await tx
    .update(dataExports)
    .set({ state: MAKING_OF, planned: true, holder: null, leaseUntil: null, error: null })
    .where(eq(dataExports.id, id))
  await wake(tx)
}

export interface ClaimedPart {
  part: DataExportPartRow
  of: DataExportRow
  parts: number
}

/**
 * Claims a part that is to be made, of the export that has waited longest. Part 1 is the last one of its export: what it
 * says of the others is true then.
 */
export async function claimPart(tx: Tx, lease: Lease): Promise<ClaimedPart | undefined> {
  const [p, e] = [dataExportParts, dataExports]
  const [due] = await tx
    .select({ exportId: p.exportId, number: p.number })
    .from(p)
    .innerJoin(e, eq(e.id, p.exportId))
    .where(
      sql`${isMaking} and ${p.state} = 'waiting' and ${p.nextAttemptAt} <= now()
        and coalesce(${p.leaseUntil} <= now(), true)
        and (${p.number} > 1 or not exists (select from data_export_parts other where other.export_id = ${p.exportId}
          and other.number > 1 and other.state = 'waiting'))`,
    )
    .orderBy(asc(e.workedAt), asc(p.number))
    .limit(1)
    .for('update', { of: p, skipLocked: true })
  if (!due) return undefined
  const { exportId, number } = due
  const [part] = await tx
    .update(p)
    .set({
      attempts: sql`${p.attempts} + 1`,
      failures: sql`${p.failures} + 1`,
      holder: lease.holder,
      leaseUntil: until(lease.seconds),
      doneBytes: 0,
    })
    .where(and(eq(p.exportId, exportId), eq(p.number, number)))
    .returning()
  const [of] = await tx.update(e).set({ workedAt: sql`now()` }).where(eq(e.id, exportId)).returning()
  const parts = await tx.$count(p, eq(p.exportId, exportId))
  return part && of && { part, of, parts }
}

type PartKey = Pick<DataExportPartRow, 'exportId' | 'number'>
const isPart = ({ exportId, number }: PartKey) =>
  and(eq(dataExportParts.exportId, exportId), eq(dataExportParts.number, number))

/** Extends the lease, and says how far it is. False when the part is not this worker's any more. */
export async function extendPart(tx: Tx, key: PartKey, lease: Lease, doneBytes: number): Promise<boolean> {
  const { rowCount } = await tx
    .update(dataExportParts)
    .set({ leaseUntil: until(lease.seconds), doneBytes })
    .where(
      and(
        isPart(key),
        eq(dataExportParts.holder, lease.holder),
        sql`exists (select from data_exports where id = ${key.exportId} and ${isMaking})`,
      ),
    )
  return rowCount === 1
}

/** Locks the export and the part at its last step; undefined when it is not this worker's any more. */
export async function holdPart(tx: Tx, key: PartKey, holder: Uuid): Promise<DataExportRow | undefined> {
  // In the order in which a claim locks them.
  const [part] = await tx
    .select({ number: dataExportParts.number })
    .from(dataExportParts)
    .where(and(isPart(key), eq(dataExportParts.holder, holder), eq(dataExportParts.state, 'waiting')))
    .for('update')
  const [of] = await tx
    .select()
    .from(dataExports)
    .where(and(eq(dataExports.id, key.exportId), isMaking))
    .for('update')
  return part && of
}

/** All entries of a part, in the order of their paths. */
export const listEntries = (tx: Tx, { exportId, number }: PartKey): Promise<DataExportEntryRow[]> =>
  tx
    .select()
    .from(dataExportEntries)
    .where(and(eq(dataExportEntries.exportId, exportId), eq(dataExportEntries.part, number)))
    .orderBy(asc(dataExportEntries.path))

/** Where the files of these media items are, by media item. */
export async function findPlaces(
  tx: Tx,
  exportId: ExportId,
  mediaIds: readonly Uuid[],
): Promise<Map<Uuid, { part: number; path: string }>> {
  const n = dataExportEntries
  const rows = await tx
    .select({ mediaId: n.mediaId, part: n.part, path: n.path })
    .from(n)
    .where(and(eq(n.exportId, exportId), inArray(n.mediaId, [...mediaIds])))
  return new Map(rows.map(({ mediaId, ...place }) => [mediaId, place]))
}

/** Takes entries out of a part; what is left of it is made without them. */
export async function dropEntries(tx: Tx, { exportId, number }: PartKey, mediaIds: readonly Uuid[]): Promise<void> {
  await tx.execute(sql`
    with dropped as (delete from data_export_entries where export_id = ${exportId} and part = ${number}
      and media_id = any(${sql.param([...mediaIds])}::uuid[]) returning bytes)
    update data_export_parts set files = files - (select count(*) from dropped),
      bytes = bytes - (select coalesce(sum(bytes), 0) from dropped)
    where export_id = ${exportId} and number = ${number}`)
}

/** The object has another length than its row said. */
export async function correctEntry(tx: Tx, { exportId, number }: PartKey, mediaId: Uuid, size: number): Promise<void> {
  await tx.execute(sql`
    with before as (select bytes from data_export_entries where export_id = ${exportId} and media_id = ${mediaId}),
      corrected as (update data_export_entries set bytes = ${size}
        where export_id = ${exportId} and media_id = ${mediaId})
    update data_export_parts set bytes = bytes + ${size} - (select bytes from before)
    where export_id = ${exportId} and number = ${number} and exists (select from before)`)
}

/** To be made again at once; the attempt does not count as a failure. */
export async function releasePart(tx: Tx, key: PartKey, holder: Uuid): Promise<void> {
  const p = dataExportParts
  await tx
    .update(p)
    .set({ holder: null, leaseUntil: null, failures: sql`greatest(0, ${p.failures} - 1)`, doneBytes: 0 })
    .where(and(isPart(key), eq(p.holder, holder), eq(p.state, 'waiting')))
}

export async function postponePart(
  tx: Tx,
  key: PartKey,
  o: { holder: Uuid; error: string; seconds: number },
): Promise<void> {
  const p = dataExportParts
  await tx
    .update(p)
    .set({ holder: null, leaseUntil: null, error: o.error, nextAttemptAt: until(o.seconds), doneBytes: 0 })
    .where(and(isPart(key), eq(p.holder, o.holder), eq(p.state, 'waiting')))
}

export async function postponePlan(
  tx: Tx,
  id: ExportId,
  o: { holder: Uuid; error: string; seconds: number },
): Promise<void> {
  const e = dataExports
  await tx
    .update(e)
    .set({ holder: null, leaseUntil: null, error: o.error, nextAttemptAt: until(o.seconds) })
    .where(and(eq(e.id, id), eq(e.holder, o.holder), isPlanning))
}

export async function releasePlan(tx: Tx, id: ExportId, holder: Uuid): Promise<void> {
  const e = dataExports
  await tx
    .update(e)
    .set({ holder: null, leaseUntil: null, attempts: sql`greatest(0, ${e.attempts} - 1)` })
    .where(and(eq(e.id, id), eq(e.holder, holder), isPlanning))
}

/** There is no export for the person, whatever is repaired. False where it has ended before. */
export async function markRefused(tx: Tx, id: ExportId, failure: ExportFailure): Promise<boolean> {
  const { rowCount } = await tx
    .update(dataExports)
    .set({ state: 'failed', failure, error: null, holder: null, leaseUntil: null, completedAt: sql`now()` })
    .where(and(eq(dataExports.id, id), inArray(dataExports.state, [...RUNNING])))
  if (rowCount !== 1) return false
  await tx.delete(dataExportEntries).where(eq(dataExportEntries.exportId, id))
  return true
}

/** What is made of it is kept, for a retry. */
export async function markFailed(tx: Tx, id: ExportId, error: string): Promise<void> {
  await tx
    .update(dataExports)
    .set({ state: 'failed', error, holder: null, leaseUntil: null, completedAt: sql`now()` })
    .where(and(eq(dataExports.id, id), inArray(dataExports.state, [...RUNNING])))
}

export async function markMade(tx: Tx, key: PartKey, made: { key: string; bytes: number }): Promise<void> {
  await tx
    .update(dataExportParts)
    .set({
      state: 'made',
      ...made,
      doneBytes: made.bytes,
      holder: null,
      leaseUntil: null,
      error: null,
      madeAt: sql`now()`,
    })
    .where(isPart(key))
  await wake(tx)
}

/** A part that was made is made again, without the entries that were dropped. The next attempt deletes what it had. */
export async function remakePart(tx: Tx, key: PartKey): Promise<void> {
  const p = dataExportParts
  await tx
    .update(p)
    .set({
      ...{ state: 'waiting', key: null, madeAt: null, doneBytes: 0, failures: 0 },
      bytes: sql`(select coalesce(sum(n.bytes), 0) from data_export_entries n
        where n.export_id = ${key.exportId} and n.part = ${key.number})`,
    })
    .where(and(isPart(key), eq(p.state, 'made')))
}

/** Whether the part was recorded with this object. Waits for a transaction that is still recording it. */
export async function isMadeAs(tx: Tx, key: PartKey, object: string): Promise<boolean> {
  const [part] = await tx
    .select({ key: dataExportParts.key, state: dataExportParts.state })
    .from(dataExportParts)
    .where(isPart(key))
    .for('update')
  return part?.state === 'made' && part.key === object
}

/** The last step; the names of the files are not kept any longer. Returns what it consists of. */
export async function markCompleted(tx: Tx, id: ExportId, expiresAt: Date): Promise<{ files: number; bytes: number }> {
  await tx
    .update(dataExports)
    .set({ state: 'completed', completedAt: sql`now()`, expiresAt, error: null })
    .where(eq(dataExports.id, id))
  await tx.delete(dataExportEntries).where(eq(dataExportEntries.exportId, id))
  const { rows } = await tx.execute<{ files: number; bytes: number }>(sql`
    select count(*)::int as files, sum(bytes)::float8 as bytes from data_export_parts where export_id = ${id}`)
  return rows[0] ?? { files: 0, bytes: 0 }
}

const wake = (tx: Tx) => tx.execute(sql`select pg_notify('data_exports', '')`)

/** Seconds until something is due again; undefined if nothing waits. */
export async function secondsToWork(tx: Tx): Promise<number | undefined> {
  const { rows } = await tx.execute<{ seconds: number | null }>(sql`
    select extract(epoch from min(at) - now())::float8 as seconds from (
      select greatest(next_attempt_at, lease_until) as at from data_exports where ${isPlanning}
      union all
      select greatest(p.next_attempt_at, p.lease_until) from data_export_parts p
        join data_exports on data_exports.id = p.export_id where ${isMaking} and p.state = 'waiting') as waiting
    where at > now()`)
  return rows[0]?.seconds ?? undefined
}

/** Locks exports that are over: failed ones that were not retried for so long. */
export const lockGivenUp = (tx: Tx, o: { days: number; limit: number }) =>
  tx
    .select({ id: dataExports.id, userId: dataExports.userId })
    .from(dataExports)
    .where(
      and(eq(dataExports.state, 'failed'), sql`${dataExports.completedAt} < now() - make_interval(days => ${o.days})`),
    )
    .limit(o.limit)
    .for('update', { skipLocked: true })

/** Exports that have been over for so long that they are not shown any more. Returns how many. */
export async function deleteOldExports(tx: Tx, limit: number): Promise<number> {
  const { rowCount } = await tx.execute(sql`
    delete from data_exports where id in (select id from data_exports
      where created_at < now() - make_interval(days => ${SHOWN_DAYS})
        and (state = 'removed' or state = 'completed' and expires_at < now()) limit ${limit})`)
  return rowCount ?? 0
}

/** The names of files of exports that have ended. Returns how many. */
export async function deleteEndedEntries(tx: Tx, limit: number): Promise<number> {
  const { rowCount } = await tx.execute(sql`
    delete from data_export_entries where ctid = any(array(select n.ctid from data_export_entries n
      join data_exports e on e.id = n.export_id where e.state in ('removed', 'completed') limit ${limit}))`)
  return rowCount ?? 0
}

/** Whose data an export has, where nothing is left of it. Returns how many. */
export async function deleteEndedPeople(tx: Tx, limit: number): Promise<number> {
  const { rowCount } = await tx.execute(sql`
    delete from data_export_people where ctid = any(array(select p.ctid from data_export_people p
      join data_exports e on e.id = p.export_id
      where e.state = 'removed' or e.failure is not null or e.state = 'completed' and e.expires_at < now() limit ${limit}))`)
  return rowCount ?? 0
}

/**
 * Exports of others that have data of this person, for the erasure: they end, and forget the title that the person wrote.
 * Returns those with files in the store, or with a worker that may write some.
 */
export async function endExportsWith(tx: Tx, userId: Uuid) {
  const { rows } = await tx.execute<{ id: ExportId; userId: Id<'user'>; over: boolean }>(sql`
    select e.id, e.user_id as "userId",
      e.state = 'removed' or e.failure is not null or e.state = 'completed' and e.expires_at <= now() as over
    from data_exports e where e.user_id <> ${userId} and (e.event_owner_id = ${userId}
      or e.id in (select p.export_id from data_export_people p where p.user_id = ${userId}))
    order by e.id for update`)
  const ids = rows.map(({ id }) => id)
  const ended = rows.filter(({ over }) => !over)
  if (ids.length === 0) return []
  const e = dataExports
  await tx
    .update(e)
    .set({ eventTitle: null, eventOwnerId: null })
    .where(and(inArray(e.id, ids), eq(e.eventOwnerId, userId as Id<'user'>)))
  const endedIds = ended.map(({ id }) => id)
  await tx
    .update(e)
    .set({
      state: 'failed',
      failure: 'contents_erased',
      error: null,
      holder: null,
      leaseUntil: null,
      completedAt: sql`now()`,
      expiresAt: null,
    })
    .where(inArray(e.id, endedIds))
  await tx.delete(dataExportEntries).where(inArray(dataExportEntries.exportId, endedIds))
  await tx.delete(dataExportPeople).where(inArray(dataExportPeople.exportId, ids))
  return ended
}

/** Those whose accounts are closed, of whom exports of others have something: a worker of the version before does not end these. */
export async function findClosed(tx: Tx, limit: number): Promise<Id<'user'>[]> {
  const { rows } = await tx.execute<{ id: Id<'user'> }>(sql`
    select u.id from users u where u.closed_at is not null and (
      u.id in (select e.event_owner_id from data_exports e where e.event_owner_id is not null)
      or u.id in (select p.user_id from data_export_people p)) limit ${limit}`)
  return rows.map(({ id }) => id)
}

/** All of a person, for the erasure. Returns those with files in the store, or with a worker that may write some. */
export async function deleteExportsOf(tx: Tx, userId: Uuid) {
  return tx
    .delete(dataExports)
    .where(eq(dataExports.userId, userId))
    .returning({ id: dataExports.id, userId: dataExports.userId })
}

export async function countRunning(tx: Tx): Promise<number> {
  return tx.$count(dataExports, inArray(dataExports.state, [...RUNNING]))
}

export async function countFailed(tx: Tx): Promise<number> {
  return tx.$count(dataExports, and(eq(dataExports.state, 'failed'), isNull(dataExports.failure)))
}

/** How long the oldest export that is not over has been under way, in seconds; 0 when there is none. */
export async function oldestRunningSeconds(tx: Tx): Promise<number> {
  const { rows } = await tx.execute<{ seconds: number }>(sql`
    select coalesce(extract(epoch from now() - min(created_at)), 0)::float8 as seconds
    from data_exports where ${inArray(dataExports.state, [...RUNNING])}`)
  return rows[0]?.seconds ?? 0
}
