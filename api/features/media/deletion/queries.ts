import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import { and, asc, desc, eq, getTableColumns, inArray, isNotNull, isNull, or, type SQL, sql } from '../../../db/orm.ts'
import { prepared } from '../../../db/prepared.ts'
import type { RowOf } from '../../../db/row-of.ts'
import { type MediaRow, media } from '../../../db/schema/media.ts'
import type { PageWanted } from '../../../requests/page.ts'
import type { Half, Keyed } from '../pairing-plan.ts'
import { listed } from '../queries.ts'
import { restorableSince, restoreWindow } from './window-queries.ts'

/** A media item in whatever state, with the fact that depends on the database's clock. */
const inAnyState = {
  ...getTableColumns(media),
  isPastRestore: sql<boolean>`coalesce(${media.deletedAt} <= ${restorableSince}, false)`,
}
export type MediaSeen = RowOf<typeof inAnyState>

const isEither = (orgId: Uuid, id: Uuid) =>
  and(eq(media.orgId, orgId), or(eq(media.id, id), eq(media.pairedMediaId, id)))

export interface Locked {
  row: MediaSeen
  /** With the counterpart. */
  all: MediaSeen[]
}

/** The counterpart joined or left while this transaction waited for its lock. Nothing was changed: start again. */
export class PairChanged extends Error {}

/**
 * The media item and, of a Live Photo, its counterpart: locked in order of id, so that two transactions on the halves of
 * one Live Photo never wait for each other. `share` keeps them from being deleted, restored and paired.
 */
export async function lockWithCounterpart(
  tx: Tx,
  orgId: Uuid,
  id: Uuid,
  lock: 'update' | 'share' = 'update',
): Promise<Locked | undefined> {
  const all = await tx.select(inAnyState).from(media).where(isEither(orgId, id)).orderBy(asc(media.id)).for(lock)
  const row = all.find((one) => one.id === id)
  if (!row) return undefined
  // To lock the counterpart now could break the order.
  if (row.pairedMediaId !== null && !all.some((one) => one.id === row.pairedMediaId)) throw new PairChanged()
  return { row, all }
}

/** In whatever state. Not locked. */
export async function findInAnyState(tx: Tx, orgId: Uuid, id: Uuid): Promise<Locked['row'] | undefined> {
  const [row] = await tx
    .select(inAnyState)
    .from(media)
    .where(and(eq(media.orgId, orgId), eq(media.id, id)))
  return row
}

/** What pairs the media item and its counterpart with others. Not locked: call `lockPairing` before the rows. */
export async function findKeys(tx: Tx, orgId: Uuid, id: Uuid): Promise<Keyed[]> {
  const { uploaderId, livePhotoPairId, assetIdentifier } = media
  return tx
    .select({ orgId: media.orgId, uploaderId, livePhotoPairId, assetIdentifier })
    .from(media)
    .where(isEither(orgId, id))
}

/** Whether another file has the pair id of one of these deleted halves by now. Call with `lockPairing` held. */
export async function isPairIdTaken(tx: Tx, halves: readonly Half[]): Promise<boolean> {
  const places = halves.flatMap(({ orgId, uploaderId, kind, livePhotoPairId: pairId }) =>
    pairId === null
      ? []
      : and(
          eq(media.orgId, orgId),
          eq(media.uploaderId, uploaderId),
          eq(media.livePhotoPairId, pairId),
          eq(media.kind, kind),
        ),
  )
  return places.length > 0 && (await tx.$count(media, and(or(...places), isNull(media.deletedAt)))) > 0
}

const anyOf = (rows: readonly { id: Uuid }[]) =>
  inArray(
    media.id,
    rows.map(({ id }) => id),
  )

/** Call with the rows locked. Returns them as they are now. */
export async function markDeleted(tx: Tx, rows: readonly MediaRow[], by: Uuid): Promise<MediaRow[]> {
  return tx
    .update(media)
    .set({ deletedAt: sql`now()`, deletedBy: by, version: sql`${media.version} + 1`, updatedAt: sql`now()` })
    .where(and(anyOf(rows), isNull(media.deletedAt)))
    .returning()
}

/**
 * Call with the rows locked. A conversion that the deletion interrupted waits again: its slot has gone to another one, and
 * its resource may be gone. A worker records a result that exists already. A half that loses its pair id, because another
 * file has it, stays paired with its counterpart.
 */
export async function markRestored(
  tx: Tx,
  rows: readonly MediaRow[],
  o: { givesUpPairId: boolean },
): Promise<MediaRow[]> {
  const ifUnfinished = (change: SQL, column: SQL) =>
    sql`case when ${media.uploadStatus} = 'processing' then ${change} else ${column} end`
  return tx
    .update(media)
    .set({
      deletedAt: null,
      deletedBy: null,
      ...(o.givesUpPairId && { livePhotoPairId: null }),
      version: sql`${media.version} + 1`,
      updatedAt: sql`now()`,
      conversionState: ifUnfinished(sql`'queued'`, sql`${media.conversionState}`),
      conversionProgress: ifUnfinished(sql`null`, sql`${media.conversionProgress}`),
      conversionAdmittedAt: ifUnfinished(sql`null`, sql`${media.conversionAdmittedAt}`),
    })
    .where(anyOf(rows))
    .returning()
}

/** For a dry run of the permissions: what a request to delete or restore would find. */
export async function findMediaOrTrash(tx: Tx, orgId: Uuid, id: Uuid): Promise<MediaSeen | undefined> {
  const [row] = await tx
    .select(inAnyState)
    .from(media)
    .where(and(eq(media.orgId, orgId), eq(media.id, id)))
  return row?.purgingAt || row?.isPastRestore ? undefined : row
}

/** What a link of a deleted media item may deliver; undefined when it is restored, or too late to restore. */
export async function findTrashed(tx: Tx, orgId: Uuid, id: Uuid) {
  const [row] = await prepared(tx, 'find_trashed', { org: orgId, id }, () =>
    tx
      .select({
        mimeType: media.mimeType,
        filename: media.originalFilename,
        uploadStatus: media.uploadStatus,
        originalTier: media.originalTier,
      })
      .from(media)
      .where(
        and(
          ...[eq(media.orgId, sql.placeholder('org')), eq(media.id, sql.placeholder('id'))],
          ...[isNotNull(media.deletedAt), isNull(media.purgingAt), sql`not ${inAnyState.isPastRestore}`],
        ),
      ),
  )
  return row
}

const trashed = {
  ...listed,
  // Both halves of a Live Photo are deleted together, so `listed` would find none to play.
  livePhotoVideo: sql<string | null>`(select half.output_prefix || half.hls_master from media half
    where half.id = media.paired_media_id)`,
  deletedBy: media.deletedBy,
  deletedAt: sql<string>`to_char(${media.deletedAt} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`,
  purgeAt: sql<Date | null>`${media.deletedAt} + ${restoreWindow}`.mapWith(media.deletedAt),
}
export type TrashedRow = RowOf<typeof trashed>

/** The latest deletion first. `of`: only media items that this user has uploaded or deleted. A Live Photo is its image. */
export async function listTrash(tx: Tx, o: { orgId: Uuid; of: Uuid | undefined } & PageWanted): Promise<TrashedRow[]> {
  const after = o.after && sql`(deleted_at, id) < (${o.after.at}::timestamptz, ${o.after.id}::uuid)`
  // Must match the predicate of the indexes literally: the planner requires it.
  const inTrash = sql`deleted_at is not null and not (kind = 'video' and paired_media_id is not null)
    and purging_at is null and deleted_at > ${restorableSince}`
  // One index for each part. A disjunction would read what others deleted as well.
  const page = (mine: SQL) => sql`(select id from media where org_id = ${o.orgId} and ${inTrash} and ${mine}
    ${after ? sql`and ${after}` : sql``} order by deleted_at desc, id desc limit ${o.limit})`
  const ids =
    o.of === undefined
      ? page(sql`true`)
      : sql`${page(sql`uploader_id = ${o.of}`)} union ${page(sql`deleted_by = ${o.of}`)}`
  return tx
    .select(trashed)
    .from(media)
    .where(sql`${media.id} in (${ids})`)
    .orderBy(desc(media.deletedAt), desc(media.id))
    .limit(o.limit)
}

/** Notifies a worker at the commit. The rows do not say how the conversions ended meanwhile: the worker finds out. */
export async function wakeConversions(tx: Tx, restored: readonly MediaRow[]): Promise<void> {
  for (const { id, uploadStatus } of restored) {
    if (uploadStatus === 'processing') await tx.execute(sql`select pg_notify('restored', ${id})`)
  }
}
