import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { afterCursor, microseconds } from '../../db/keyset.ts'
import { and, asc, desc, eq, getTableColumns, inArray, isNull, or, type SQL, sql } from '../../db/orm.ts'
import { prepared } from '../../db/prepared.ts'
import type { RowOf } from '../../db/row-of.ts'
import { type MediaRow, media, mediaMonthChanges, mediaMonths, objectIntents } from '../../db/schema/media.ts'
import type { CursorPosition } from '../../requests/cursor.ts'
import type { MediaSort } from './sorts.ts'

const org = sql.placeholder('org')
const thisMedia = and(eq(media.orgId, org), isNull(media.deletedAt), eq(media.id, sql.placeholder('id')))

/**
 * A look-up by primary key for a row that has a counterpart, and nothing for others. Null for a video, because images
 * have no HLS. Names are written out: in a query of one table drizzle leaves out the table, and here that matters.
 */
export const livePhotoVideo = sql<string | null>`(select half.output_prefix || half.hls_master from media half
  where half.id = media.paired_media_id and half.deleted_at is null)`

/** Seconds that the video half of a Live Photo plays; null for the video itself, and until its conversion has found it out. */
const livePhotoDurationSec = sql<
  number | null
>`(select (half.manifest -> 'hls' ->> 'durationSec')::float8 from media half
  where half.id = media.paired_media_id and half.deleted_at is null and half.kind = 'video')`

const found = { ...getTableColumns(media), livePhotoVideo }
export type FoundMedia = RowOf<typeof found>
const described = { ...found, livePhotoDurationSec }
export type DescribedMedia = RowOf<typeof described>

/** A media item of the organization that has not been deleted. */
export async function findMedia(tx: Tx, orgId: Uuid, id: Uuid): Promise<DescribedMedia | undefined> {
  const [row] = await prepared(tx, 'find_media', { org: orgId, id }, () =>
    tx.select(described).from(media).where(thisMedia),
  )
  return row
}

/** Columns that a list shows: without the manifest, which describes every rendition. */
export const listed = {
  id: media.id,
  orgId: media.orgId,
  uploaderId: media.uploaderId,
  originalFilename: media.originalFilename,
  mimeType: media.mimeType,
  fileSizeBytes: media.fileSizeBytes,
  uploadStatus: media.uploadStatus,
  version: media.version,
  assetIdentifier: media.assetIdentifier,
  outputPrefix: media.outputPrefix,
  hlsMaster: media.hlsMaster,
  imageFile: media.imageFile,
  imageIsOriginal: media.imageIsOriginal,
  webpFile: media.webpFile,
  thumbFile: media.thumbFile,
  placeholder: media.placeholder,
  conversionState: media.conversionState,
  conversionProgress: media.conversionProgress,
  capturedAt: media.capturedAt,
  createdAt: microseconds(media.createdAt),
  takenAt: microseconds(media.takenAt),
  livePhotoVideo,
}
export type ListedMedia = RowOf<typeof listed>

/** A media item whose file has no time is sorted by the time of its upload. */
const SORTED_BY = { created_at: media.createdAt, captured_at: media.takenAt }

/**
 * What a list shows of a media item that has not been deleted. Half the columns of `findMedia`, and without the
 * manifest: pg describes every column of every answer.
 */
export async function findListed(tx: Tx, orgId: Uuid, id: Uuid): Promise<ListedMedia | undefined> {
  const [row] = await prepared(tx, 'find_listed', { org: orgId, id }, () =>
    tx.select(listed).from(media).where(thisMedia),
  )
  return row
}

export interface ListOptions {
  orgId: Uuid
  sort: MediaSort
  mimeType: string | undefined
  after: CursorPosition | undefined
  limit: number
}

/** Newest first. */
export async function listMedia(tx: Tx, o: ListOptions): Promise<ListedMedia[]> {
  const type = o.mimeType === undefined ? 'any' : o.mimeType.endsWith('/*') ? 'kind' : 'one'
  const page = o.after ? 'next' : 'first'
  const by = SORTED_BY[o.sort]
  const name = `list_media_${o.sort}_${type}_${page}`
  const values = {
    org: o.orgId,
    limit: o.limit,
    type: type === 'kind' ? o.mimeType?.slice(0, -'/*'.length) : o.mimeType,
    at: o.after?.at,
    id: o.after?.id,
  }
  return prepared(tx, name, values, () =>
    tx
      .select(listed)
      .from(media)
      .where(and(eq(media.orgId, org), LISTED, OF_TYPE[type], page === 'next' ? AFTER[o.sort] : undefined))
      .orderBy(desc(by), desc(media.id))
      .limit(sql.placeholder('limit')),
  )
}

// Must match the predicate of the indexes literally: the planner requires it.
const LISTED = sql`${media.listed}`

// Equality only: each filter has an index in the order of the page, so a rare type costs no more than a common one. A
// kind is the part before the slash of its types (sniff.ts).
const OF_TYPE = {
  any: undefined,
  kind: eq(media.kind, sql.placeholder('type')),
  one: eq(media.mimeType, sql.placeholder('type')),
}
const AFTER = { created_at: afterCursor(media.createdAt, media.id), captured_at: afterCursor(media.takenAt, media.id) }

/** How many listed media items each month (UTC) has, newest first. See migration 0008 for the two tables. */
export async function listMonths(tx: Tx, orgId: Uuid): Promise<{ month: string; count: number }[]> {
  const { rows } = await tx.execute<{ month: string; count: number }>(sql`
    select to_char(month, 'YYYY-MM') as month, sum(change)::int as count from (
      select month, media_count as change from ${mediaMonths} where org_id = ${orgId}
      union all
      select month, change from ${mediaMonthChanges} where org_id = ${orgId}
    ) changes group by changes.month having sum(change) > 0 order by changes.month desc`)
  return rows
}

/** What delivery needs to know about a media item before it sends a file. */
export async function findDelivered(tx: Tx, orgId: Uuid, id: Uuid) {
  const [row] = await prepared(tx, 'find_delivered', { org: orgId, id }, () =>
    tx
      .select({
        mimeType: media.mimeType,
        filename: media.originalFilename,
        uploadStatus: media.uploadStatus,
        originalTier: media.originalTier,
      })
      .from(media)
      .where(thisMedia),
  )
  return row
}

/** Undefined once the media item has been purged; the digest is null where the original was never read as a whole. */
export async function findDigest(tx: Tx, orgId: Uuid, id: Uuid): Promise<Pick<MediaRow, 'sha256'> | undefined> {
  const [row] = await tx
    .select({ sha256: media.sha256 })
    .from(media)
    .where(and(eq(media.orgId, orgId), eq(media.id, id)))
  return row
}

/** The digest of an original never changes, so no response depends on when the API has recorded it. */
export async function recordDigest(tx: Tx, id: Uuid, sha256: string): Promise<void> {
  await tx
    .update(media)
    .set({ sha256 })
    .where(and(eq(media.id, id), isNull(media.sha256)))
}

export type NewMedia = Pick<
  MediaRow,
  | 'id'
  | 'orgId'
  | 'uploaderId'
  | 'originalFilename'
  | 'mimeType'
  | 'kind'
  | 'fileSizeBytes'
  | 'sha256'
  | 'livePhotoPairId'
  | 'assetIdentifier'
>

/** Undefined when this uploader already has an image or a video with the same pair id in the organization. */
export async function insertMedia(tx: Tx, row: NewMedia): Promise<MediaRow | undefined> {
  const [made] = await tx
    .insert(media)
    .values(row)
    .onConflictDoNothing({
      target: [media.orgId, media.uploaderId, media.livePhotoPairId, media.kind],
      where: sql`${media.livePhotoPairId} is not null and ${media.deletedAt} is null`,
    })
    .returning()
  return made
}

export type PairedHalf = Pick<NewMedia, 'orgId' | 'uploaderId' | 'kind'> & { livePhotoPairId: string | null }

/** The media item of this kind and pair id that the uploader has in the organization. */
export async function findHalf(tx: Tx, half: PairedHalf): Promise<Uuid | undefined> {
  const [row] = await tx
    .select({ id: media.id })
    .from(media)
    .where(
      and(
        eq(media.orgId, half.orgId),
        eq(media.uploaderId, half.uploaderId),
        sql`${media.livePhotoPairId} = ${half.livePhotoPairId}`,
        eq(media.kind, half.kind),
        isNull(media.deletedAt),
      ),
    )
  return row?.id
}

/** Records that the API is about to write an object for a media item that has no row yet. */
export async function insertIntent(tx: Tx, orgId: Uuid, mediaId: Uuid): Promise<void> {
  await tx.insert(objectIntents).values({ orgId, mediaId })
}

/** Removes the intent as the row is inserted. False when the intent was abandoned: then the caller must not insert. */
export async function settleIntent(tx: Tx, mediaId: Uuid): Promise<boolean> {
  const { rowCount } = await tx
    .delete(objectIntents)
    .where(and(eq(objectIntents.mediaId, mediaId), isNull(objectIntents.abandonedAt)))
  return rowCount === 1
}

/** After its commit no request can insert a row for the object. Then delete the object, and after it the intent. */
export async function abandonIntent(tx: Tx, mediaId: Uuid): Promise<void> {
  await tx.update(objectIntents).set({ abandonedAt: sql`now()` }).where(eq(objectIntents.mediaId, mediaId))
}

export async function deleteIntent(tx: Tx, mediaId: Uuid): Promise<void> {
  await tx.delete(objectIntents).where(eq(objectIntents.mediaId, mediaId))
}

/** Abandons intents that no running request can still hold, and returns them with those abandoned before. */
export async function abandonOldIntents(tx: Tx, olderThanSeconds: number, limit: number) {
  // A common table expression with FOR UPDATE runs once; as a subquery it could run per row and lock more than `limit`.
  const old = tx.$with('old').as(
    tx
      .select({ mediaId: objectIntents.mediaId })
      .from(objectIntents)
      .where(
        sql`${objectIntents.abandonedAt} is not null
          or ${objectIntents.createdAt} < now() - make_interval(secs => ${olderThanSeconds})`,
      )
      // In turns: a hundred that cannot be removed, such as in a bucket that locks its objects, do not hide the others.
      .orderBy(sql`${objectIntents.abandonedAt} nulls first`)
      .limit(limit)
      .for('update', { skipLocked: true }),
  )
  return tx
    .with(old)
    .update(objectIntents)
    .set({ abandonedAt: sql`now()` })
    .where(inArray(objectIntents.mediaId, sql`(select media_id from ${old})`))
    .returning({ mediaId: objectIntents.mediaId, orgId: objectIntents.orgId })
}

/** Whether there is a row, deleted or not. */
export async function mediaExists(tx: Tx, id: Uuid): Promise<boolean> {
  return (await tx.$count(media, eq(media.id, id))) > 0
}

const isFailed = and(eq(media.uploadStatus, 'failed'), isNull(media.deletedAt))
/** Uploaded before images were converted. */
const isUnconverted = and(
  eq(media.kind, 'image'),
  eq(media.uploadStatus, 'completed'),
  isNull(media.webpFile),
  isNull(media.deletedAt),
)

/** Of a media item and, if it is half of a Live Photo, of its other half. */
const isHalfOf = (id: Uuid) => or(eq(media.id, id), eq(media.pairedMediaId, id))

/** `reason` is that of the cluster, or the code. The other half of a Live Photo counts if it failed too, for any reason. */
function hasFailedFor(reason: string): SQL | undefined {
  return sql`(${reason} in (${media.conversionError} ->> 'reason', ${media.conversionError} ->> 'code')
    or exists (select from media half where half.id = media.paired_media_id and half.upload_status = 'failed'
      and half.deleted_at is null
      and ${reason} in (half.conversion_error ->> 'reason', half.conversion_error ->> 'code')))`
}

/** Why conversions failed, and how many; the most frequent first. */
export async function countFailures(tx: Tx): Promise<{ reason: string; code: string; count: number }[]> {
  const { rows } = await tx.execute<{ reason: string; code: string; count: number }>(sql`
    select coalesce(conversion_error ->> 'reason', conversion_error ->> 'code') as reason,
      conversion_error ->> 'code' as code, count(*)::int as count
    from ${media} where ${isFailed} group by 1, 2 order by 3 desc, 1, 2`)
  return rows
}

export const countFailedFor = (tx: Tx, reason: string): Promise<number> =>
  tx.$count(media, and(isFailed, hasFailedFor(reason)))

/**
 * Queues the failed conversion of a media item again, and that of its other half, or the conversion of an image that was
 * uploaded before images were converted. Returns those that it queued.
 */
export const restartConversion = (tx: Tx, id: Uuid) =>
  restart(tx, { where: and(isHalfOf(id), or(isFailed, isUnconverted)), limit: 2 })

/** Queues some conversions again that failed for a reason before a moment. */
export const restartFailedFor = (tx: Tx, o: { reason: string; before: string; limit: number }) =>
  restart(tx, {
    where: and(
      isFailed,
      hasFailedFor(o.reason),
      sql`coalesce(${media.conversionFinishedAt}, ${media.updatedAt}) <= ${o.before}::timestamptz`,
    ),
    limit: o.limit,
  })

/** Each as a new generation. Locked in order of id, so that two administrators at once do not wait for each other. */
async function restart(tx: Tx, o: { where: SQL | undefined; limit: number }) {
  const chosen = await tx
    .select({ id: media.id })
    .from(media)
    .where(o.where)
    .orderBy(asc(media.id))
    .limit(o.limit)
    .for('update')
  if (chosen.length === 0) return []
  const ids = [...chosen, ...(await lockFailedHalves(tx, chosen))].map(({ id }) => id)
  return tx
    .update(media)
    .set({
      generation: sql`${media.generation} + 1`,
      version: sql`${media.version} + 1`,
      uploadStatus: 'processing',
      conversionState: 'queued',
      conversionAttempts: 0,
      conversionStartedAt: null,
      conversionFinishedAt: null,
      conversionError: null,
      conversionProgress: null,
      conversionAdmittedAt: null,
      conversionBatch: null,
      conversionPriority: null,
      conversionRegrouped: 0,
      updatedAt: sql`now()`,
    })
    .where(inArray(media.id, ids))
    .returning({ id: media.id, orgId: media.orgId, generation: media.generation })
}

/** The other halves that failed too. Once the first half is queued, a query for its reason no longer finds them. */
async function lockFailedHalves(tx: Tx, chosen: readonly { id: Uuid }[]): Promise<{ id: Uuid }[]> {
  const ids = chosen.map(({ id }) => id)
  return tx
    .select({ id: media.id })
    .from(media)
    .where(and(isFailed, inArray(media.pairedMediaId, ids)))
    .orderBy(asc(media.id))
    .for('update')
}

export async function findStatus(tx: Tx, id: Uuid): Promise<MediaRow['uploadStatus'] | undefined> {
  const [row] = await tx
    .select({ status: media.uploadStatus })
    .from(media)
    .where(and(eq(media.id, id), isNull(media.deletedAt)))
  return row?.status
}

/** The clock that all times of rows come from, with all its digits. */
export async function readNow(tx: Tx): Promise<string> {
  const { rows } = await tx.execute<{ now: string }>(sql`select now()::text as now`)
  const [row] = rows
  if (!row) throw new Error('the database does not know the time')
  return row.now
}
