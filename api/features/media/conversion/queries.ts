import { and, asc, eq, getTableColumns, gt, inArray, isNotNull, isNull, or, sql } from 'drizzle-orm'
import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Manifest } from '../../../../lib/contract/manifest.ts'
import type { Tx } from '../../../db/db.ts'
import { type ConversionError, media } from '../../../db/schema/media.ts'
import { type FoundMedia, livePhotoVideo } from '../queries.ts'
import type { ConversionSeen, Run } from './plan.ts'

const seen = {
  id: media.id,
  orgId: media.orgId,
  kind: media.kind,
  mimeType: media.mimeType,
  generation: media.generation,
  uploadStatus: media.uploadStatus,
  outputPrefix: media.outputPrefix,
  conversionState: media.conversionState,
  conversionAttempts: media.conversionAttempts,
  conversionStartedAt: media.conversionStartedAt,
  conversionProgress: media.conversionProgress,
  conversionAdmittedAt: media.conversionAdmittedAt,
  conversionBatch: media.conversionBatch,
  updatedAt: media.updatedAt,
}

/** Undefined for a deleted media item: the result of its conversion does not matter any more. */
export async function findConversion(tx: Tx, id: Uuid) {
  const [row] = await tx
    .select(seen)
    .from(media)
    .where(and(eq(media.id, id), isNull(media.deletedAt)))
  return row
}
export type Conversion = NonNullable<Awaited<ReturnType<typeof findConversion>>>

/** In order of id, as every transaction that locks several media items: otherwise two could wait for each other. */
export async function lockMedia(tx: Tx, ids: readonly Uuid[]): Promise<void> {
  await tx
    .select({ id: media.id })
    .from(media)
    .where(inArray(media.id, [...ids]))
    .orderBy(asc(media.id))
    .for('no key update')
}

/** A video that was deleted during its conversion. */
export async function findInterrupted(tx: Tx, id: Uuid): Promise<ConversionKey | undefined> {
  const isInterrupted = and(eq(media.kind, 'video'), eq(media.uploadStatus, 'processing'), isNotNull(media.deletedAt))
  const [row] = await tx
    .select({ id: media.id, generation: media.generation })
    .from(media)
    .where(and(eq(media.id, id), isInterrupted))
  return row
}

/** Identifies the conversion of a media item: an earlier generation cannot change the row any more. */
export type ConversionKey = Pick<Conversion, 'id' | 'generation'>

const isProcessing = (c: ConversionKey) =>
  and(
    eq(media.id, c.id),
    eq(media.generation, c.generation),
    eq(media.uploadStatus, 'processing'),
    isNull(media.deletedAt),
  )

/**
 * Media items in conversion that have not changed for a while, in order of id. Videos that wait for a slot of their
 * organization and images that wait for a batch are not included: no deadline applies to them.
 */
export async function listProcessing(
  tx: Tx,
  o: { idleSeconds: number; after: Uuid | undefined; limit: number; only?: Uuid },
): Promise<Conversion[]> {
  return tx
    .select(seen)
    .from(media)
    .where(
      and(
        eq(media.uploadStatus, 'processing'),
        isNull(media.deletedAt),
        or(
          and(eq(media.kind, 'video'), isNotNull(media.conversionAdmittedAt)),
          and(eq(media.kind, 'image'), isNotNull(media.conversionBatch)),
        ),
        sql`${media.updatedAt} <= now() - make_interval(secs => ${o.idleSeconds})`,
        o.after === undefined ? undefined : gt(media.id, o.after),
        o.only === undefined ? undefined : eq(media.id, o.only),
      ),
    )
    .orderBy(asc(media.id))
    .limit(o.limit)
}

/** The row of a conversion that is not over, locked, because what may be written depends on it. */
export async function lockProcessing(tx: Tx, key: ConversionKey): Promise<Conversion | undefined> {
  const [row] = await tx.select(seen).from(media).where(isProcessing(key)).for('update')
  return row
}

const changed = { version: sql`${media.version} + 1`, updatedAt: sql`now()` }

export async function updateProgress(tx: Tx, key: ConversionKey, move: ConversionSeen): Promise<void> {
  await tx
    .update(media)
    .set({
      ...move,
      ...changed,
      // A running conversion has a slot, even if an earlier version of the worker gave it none.
      conversionAdmittedAt: sql`coalesce(${media.conversionAdmittedAt}, now())`,
    })
    .where(eq(media.id, key.id))
}

/** Returns false when the row has output already or the conversion is over. */
export async function updatePlayable(tx: Tx, key: ConversionKey, found: { prefix: string; hlsMaster: string }) {
  const { rowCount } = await tx
    .update(media)
    .set({ outputPrefix: found.prefix, hlsMaster: found.hlsMaster, ...changed })
    // The output of an earlier generation is complete, and stays until this one is.
    .where(and(isProcessing(key), isNull(media.outputPrefix)))
  return rowCount === 1
}

/** A short conversion may end before any worker has seen it running. */
const ended = (run: Run | undefined) => ({
  ...changed,
  conversionFinishedAt: sql`now()`,
  conversionProgress: null,
  ...(run && {
    conversionAttempts: sql`greatest(${media.conversionAttempts}, ${run.attempts}::int)`,
    conversionStartedAt: sql`coalesce(${run.startedAt}::timestamptz, ${media.conversionStartedAt})`,
  }),
})

export type Converted = FoundMedia

/** The row, or undefined when the conversion was over already. */
export async function updateCompleted(
  tx: Tx,
  key: ConversionKey,
  result: { prefix: string; manifest: Manifest } | null,
  run: Run | undefined,
): Promise<Converted | undefined> {
  const [row] = await tx
    .update(media)
    .set({
      ...(result && { outputPrefix: result.prefix, manifest: result.manifest, ...madeOf(result.manifest) }),
      ...ended(run),
      uploadStatus: 'completed',
      conversionState: 'succeeded',
      conversionError: null,
    })
    .where(isProcessing(key))
    .returning({ ...getTableColumns(media), livePhotoVideo })
  return row
}

/** The columns that a manifest fills. */
function madeOf(manifest: Manifest) {
  const { images } = manifest
  return {
    hlsMaster: manifest.type === 'video' ? manifest.hls.master : null,
    imageFile: manifest.type === 'image' ? (manifest.images.jpeg?.file ?? null) : null,
    imageIsOriginal: manifest.type === 'image' && manifest.images.jpeg === null,
    webpFile: images?.webp.file ?? null,
    thumbFile: images?.thumb.file ?? null,
    placeholder: images?.placeholder ?? null,
    capturedAt: momentOf(manifest.source.capturedAt),
  }
}

/** Null for a time that RFC 3339 cannot say in UTC, such as an offset before the first year. */
function momentOf(text: string | null): Date | null {
  const moment = new Date(text ?? '')
  const year = moment.getUTCFullYear()
  return year >= 1 && year <= 9999 ? moment : null
}

/** Returns false when the conversion was over already. */
export async function updateFailed(tx: Tx, key: ConversionKey, error: ConversionError, run: Run | undefined) {
  const { rowCount } = await tx
    .update(media)
    .set({
      ...ended(run),
      uploadStatus: 'failed',
      conversionState: 'failed',
      conversionError: error,
      // Without a manifest, only a partial stream can have been playable.
      outputPrefix: sql`case when ${media.manifest} is not null then ${media.outputPrefix} end`,
      hlsMaster: sql`case when ${media.manifest} is not null then ${media.hlsMaster} end`,
    })
    .where(isProcessing(key))
  return rowCount === 1
}

/** Returns false when the image has left the batch already or its conversion is over. */
export async function updateBatchLeft(tx: Tx, key: ConversionKey, batch: Uuid) {
  const { rowCount } = await tx
    .update(media)
    .set({
      ...changed,
      conversionBatch: null,
      conversionPriority: null,
      conversionRegrouped: sql`${media.conversionRegrouped} + 1`,
      conversionAdmittedAt: null,
      conversionState: 'queued',
      conversionProgress: null,
    })
    .where(and(isProcessing(key), eq(media.conversionBatch, batch)))
  return rowCount === 1
}
