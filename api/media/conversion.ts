import { and, asc, eq, gt, isNotNull, isNull, ne, or, sql } from 'drizzle-orm'
import { formatId, type Uuid } from '../../lib/contract/ids.ts'
import type { Manifest } from '../../lib/contract/manifest.ts'
import type { Database, Tx } from '../db/db.ts'
import { type ConversionError, media } from '../db/schema/media.ts'
import { appendEvent } from '../outbox.ts'
import { progressMove, type Run, type RunningConversion } from './conversion-plan.ts'

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
  updatedAt: media.updatedAt,
}

/** Undefined for a media that has been deleted: whatever becomes of its conversion, nobody wants to know. */
export async function findConversion(tx: Tx, id: Uuid) {
  const [row] = await tx
    .select(seen)
    .from(media)
    .where(and(eq(media.id, id), isNull(media.deletedAt)))
  return row
}
export type Conversion = NonNullable<Awaited<ReturnType<typeof findConversion>>>

/** Which conversion of which media: a generation that is over cannot be moved any more. */
export type ConversionKey = Pick<Conversion, 'id' | 'generation'>

const isProcessing = (c: ConversionKey) =>
  and(
    eq(media.id, c.id),
    eq(media.generation, c.generation),
    eq(media.uploadStatus, 'processing'),
    isNull(media.deletedAt),
  )

/**
 * Media items that are being converted and have not changed for a while, in the order of their ids. Videos that wait for a
 * slot of their organization are not among them: no deadline applies to those.
 */
export async function listProcessing(
  tx: Tx,
  o: { idleSeconds: number; after: Uuid | undefined; limit: number },
): Promise<Conversion[]> {
  return tx
    .select(seen)
    .from(media)
    .where(
      and(
        eq(media.uploadStatus, 'processing'),
        isNull(media.deletedAt),
        or(ne(media.kind, 'video'), isNotNull(media.conversionAdmittedAt)),
        sql`${media.updatedAt} <= now() - make_interval(secs => ${o.idleSeconds})`,
        o.after === undefined ? undefined : gt(media.id, o.after),
      ),
    )
    .orderBy(asc(media.id))
    .limit(o.limit)
}

const changed = { version: sql`${media.version} + 1`, updatedAt: sql`now()` }

/** Notes how far a conversion is. False when that is no news, or when it is over. */
export function recordProgress(db: Database, key: ConversionKey, running: RunningConversion): Promise<boolean> {
  return db.inTransaction({}, async (tx) => {
    // Locked, since what may be written depends on what is there.
    const [row] = await tx.select(seen).from(media).where(isProcessing(key)).for('update')
    const move = row && progressMove(row, running)
    if (!move) return false
    await tx
      .update(media)
      .set({
        ...move,
        ...changed,
        // What runs has a slot, also when an earlier version of the worker gave it none.
        conversionAdmittedAt: sql`coalesce(${media.conversionAdmittedAt}, now())`,
      })
      .where(eq(media.id, key.id))
    return true
  })
}

/** Lets clients play what is there already. False when they can, or when the conversion is over. */
export function recordPlayable(
  db: Database,
  key: ConversionKey,
  found: { prefix: string; hlsMaster: string },
): Promise<boolean> {
  return db.inTransaction({}, async (tx) => {
    const { rowCount } = await tx
      .update(media)
      .set({ outputPrefix: found.prefix, hlsMaster: found.hlsMaster, ...changed })
      // What an earlier generation made is whole, and stays until this one is.
      .where(and(isProcessing(key), isNull(media.outputPrefix)))
    return rowCount === 1
  })
}

/** A short conversion may end before it was ever seen running. */
const ended = (run: Run | undefined) => ({
  ...changed,
  conversionFinishedAt: sql`now()`,
  conversionProgress: null,
  ...(run && {
    conversionAttempts: sql`greatest(${media.conversionAttempts}, ${run.attempts}::int)`,
    conversionStartedAt: sql`coalesce(${run.startedAt}::timestamptz, ${media.conversionStartedAt})`,
  }),
})

/**
 * Ends a conversion well and announces it. However often and by however many this is called, there is one
 * MediaTranscoded per generation: whoever moves the row may append it. Without `result` nothing was to be converted.
 */
export function completeConversion(
  db: Database,
  key: ConversionKey,
  result: { prefix: string; manifest: Manifest } | null,
  run?: Run,
): Promise<boolean> {
  const made = result && {
    outputPrefix: result.prefix,
    hlsMaster: result.manifest.hls.master,
    manifest: result.manifest,
  }
  return db.inTransaction({}, async (tx) => {
    const [row] = await tx
      .update(media)
      .set({
        ...made,
        ...ended(run),
        uploadStatus: 'completed',
        conversionState: 'succeeded',
        conversionError: null,
      })
      .where(isProcessing(key))
      .returning()
    if (!row) return false
    await appendEvent(tx, {
      orgId: row.orgId,
      aggregateId: row.id,
      aggregateVersion: row.version,
      type: 'MediaTranscoded',
      payload: { media_id: formatId('media', row.id), variants: variantsOf(row) },
      traceparent: null,
    })
    return true
  })
}

/** Object keys under the names of `variants`: a link would be a credential, and dead before most consumers read it. */
const variantsOf = (row: typeof media.$inferSelect) => ({
  // As in the API: an original may hold a location, so it never stands in for a derivative.
  image_url: null,
  image_webp_url: null,
  hls_master_url: row.outputPrefix && row.hlsMaster ? row.outputPrefix + row.hlsMaster : null,
  live_photo_video_url: null,
  asset_identifier: row.assetIdentifier,
})

/** Ends a conversion badly: the original is still delivered, half a stream is not. False when it was over already. */
export function failConversion(db: Database, key: ConversionKey, error: ConversionError, run?: Run): Promise<boolean> {
  return db.inTransaction({}, async (tx) => {
    const { rowCount } = await tx
      .update(media)
      .set({
        ...ended(run),
        uploadStatus: 'failed',
        conversionState: 'failed',
        conversionError: error,
        // Without a manifest only a part can have been playable.
        outputPrefix: sql`case when ${media.manifest} is not null then ${media.outputPrefix} end`,
        hlsMaster: sql`case when ${media.manifest} is not null then ${media.hlsMaster} end`,
      })
      .where(isProcessing(key))
    return rowCount === 1
  })
}
