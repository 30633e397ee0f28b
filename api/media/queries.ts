import { and, desc, eq, inArray, isNull, or, sql } from 'drizzle-orm'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { prepared } from '../db/prepared.ts'
import { type MediaRow, media, objectIntents } from '../db/schema/media.ts'
import type { CursorPosition } from '../http/cursor.ts'

const org = sql.placeholder('org')
const thisMedia = and(eq(media.orgId, org), isNull(media.deletedAt), eq(media.id, sql.placeholder('id')))

/** A media item of the organization that has not been deleted. */
export async function findMedia(tx: Tx, orgId: Uuid, id: Uuid): Promise<MediaRow | undefined> {
  const query = prepared(tx, 'find_media', (name) => tx.select().from(media).where(thisMedia).prepare(name))
  const [row] = await query.execute({ org: orgId, id })
  return row
}

/** Columns that a list shows: without the manifest, which describes every rendition. */
const listed = {
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
  // As text with all six digits: a JavaScript Date has only milliseconds, and a cursor truncated to them would repeat
  // or skip rows of the same millisecond.
  createdAt: sql<string>`to_char(${media.createdAt} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`,
}
export type ListedMedia = Pick<MediaRow, Exclude<keyof typeof listed, 'createdAt'>> & { createdAt: string }

export interface ListOptions {
  orgId: Uuid
  mimeType: string | undefined
  after: CursorPosition | undefined
  limit: number
}

/** Newest first. */
export async function listMedia(tx: Tx, o: ListOptions): Promise<ListedMedia[]> {
  const type = o.mimeType === undefined ? 'any' : o.mimeType.endsWith('/*') ? 'kind' : 'one'
  const page = o.after ? 'next' : 'first'
  const query = prepared(tx, `list_media_${type}_${page}`, (name) =>
    tx
      .select(listed)
      .from(media)
      .where(and(eq(media.orgId, org), LISTED, OF_TYPE[type], page === 'next' ? AFTER : undefined))
      .orderBy(desc(media.createdAt), desc(media.id))
      .limit(sql.placeholder('limit'))
      .prepare(name),
  )
  return query.execute({
    org: o.orgId,
    limit: o.limit,
    type: type === 'kind' ? o.mimeType?.slice(0, -'/*'.length) : o.mimeType,
    createdAt: o.after?.at,
    id: o.after?.id,
  })
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
const AFTER = sql`(${media.createdAt}, ${media.id}) <
  (${sql.placeholder('createdAt')}::timestamptz, ${sql.placeholder('id')}::uuid)`

/** What delivery needs to know about a media item before it sends a file. */
export async function findDelivered(tx: Tx, orgId: Uuid, id: Uuid) {
  const query = prepared(tx, 'find_delivered', (name) =>
    tx
      .select({ mimeType: media.mimeType, filename: media.originalFilename, uploadStatus: media.uploadStatus })
      .from(media)
      .where(thisMedia)
      .prepare(name),
  )
  const [row] = await query.execute({ org: orgId, id })
  return row
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
  const old = tx
    .select({ mediaId: objectIntents.mediaId })
    .from(objectIntents)
    .where(
      sql`${objectIntents.abandonedAt} is not null
        or ${objectIntents.createdAt} < now() - make_interval(secs => ${olderThanSeconds})`,
    )
    .limit(limit)
    .for('update', { skipLocked: true })
  return tx
    .update(objectIntents)
    .set({ abandonedAt: sql`coalesce(${objectIntents.abandonedAt}, now())` })
    .where(inArray(objectIntents.mediaId, old))
    .returning({ mediaId: objectIntents.mediaId, orgId: objectIntents.orgId })
}

/** Whether there is a row, deleted or not. */
export async function mediaExists(tx: Tx, id: Uuid): Promise<boolean> {
  return (await tx.$count(media, eq(media.id, id))) > 0
}

const isUnconverted = and(eq(media.kind, 'image'), eq(media.uploadStatus, 'completed'), isNull(media.webpFile))

/**
 * Queues the conversion of a failed media item again, as a new generation, or that of an image which was uploaded before
 * images were converted. Undefined if it is neither.
 */
export async function restartConversion(tx: Tx, id: Uuid) {
  const [row] = await tx
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
    .where(and(eq(media.id, id), isNull(media.deletedAt), or(eq(media.uploadStatus, 'failed'), isUnconverted)))
    .returning({ orgId: media.orgId, generation: media.generation })
  return row
}

export async function findStatus(tx: Tx, id: Uuid): Promise<MediaRow['uploadStatus'] | undefined> {
  const [row] = await tx
    .select({ status: media.uploadStatus })
    .from(media)
    .where(and(eq(media.id, id), isNull(media.deletedAt)))
  return row?.status
}
