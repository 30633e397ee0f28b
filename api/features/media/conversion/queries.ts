import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Manifest } from '../../../../lib/contract/manifest.ts'
import type { Tx } from '../../../db/db.ts'
import { and, asc, eq, getTableColumns, inArray, isNotNull, isNull, or, sql } from '../../../db/orm.ts'
import { type ConversionError, type MediaRow, media } from '../../../db/schema/media.ts'
import { isStorable } from '../../../requests/schemas.ts'
import type { RunKey, RunRow, RunTable } from '../../../worker/runs/kind.ts'
import { type FoundMedia, livePhotoVideo } from '../queries.ts'
import type { TranscodeJobObject } from './facts.ts'

const more = {
  kind: media.kind,
  conversionBatch: media.conversionBatch,
  originalTier: media.originalTier,
  fileSizeBytes: media.fileSizeBytes,
}

export type Conversion = RunRow & Pick<MediaRow, keyof typeof more>

export interface ConversionTypes {
  row: Conversion
  object: TranscodeJobObject
  manifest: Manifest
  failure: ConversionError
}

const columns = {
  id: media.id,
  orgId: media.orgId,
  generation: media.generation,
  version: media.version,
  status: media.uploadStatus,
  state: media.conversionState,
  attempts: media.conversionAttempts,
  startedAt: media.conversionStartedAt,
  finishedAt: media.conversionFinishedAt,
  admittedAt: media.conversionAdmittedAt,
  progress: media.conversionProgress,
  error: media.conversionError,
  outputPrefix: media.outputPrefix,
  hlsMaster: media.hlsMaster,
  updatedAt: media.updatedAt,
  deletedAt: media.deletedAt,
}

export const CONVERTED_MEDIA: RunTable<Manifest> = {
  table: media,
  columns,
  more,
  mayHaveResource: or(
    and(eq(media.kind, 'video'), isNotNull(media.conversionAdmittedAt)),
    and(eq(media.kind, 'image'), isNotNull(media.conversionBatch)),
  ),
  made,
  failed: {
    // Without a manifest, only a partial stream can have been playable.
    outputPrefix: sql`case when ${media.manifest} is not null then ${media.outputPrefix} end`,
    hlsMaster: sql`case when ${media.manifest} is not null then ${media.hlsMaster} end`,
  },
}

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
export async function findInterrupted(tx: Tx, id: Uuid): Promise<RunKey | undefined> {
  const isInterrupted = and(eq(media.kind, 'video'), eq(media.uploadStatus, 'processing'), isNotNull(media.deletedAt))
  const [row] = await tx
    .select({ id: media.id, generation: media.generation })
    .from(media)
    .where(and(eq(media.id, id), isInterrupted))
  return row
}

/** The columns that a manifest fills. */
function made(manifest: Manifest) {
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

/** Null for a time that responses cannot show, such as one that its offset moves into the year 10000. */
function momentOf(text: string | null): Date | null {
  const moment = new Date(text ?? '')
  return isStorable(moment) ? moment : null
}

/** What the event about a conversion says. */
export async function findConverted(tx: Tx, id: Uuid): Promise<FoundMedia> {
  const [row] = await tx
    .select({ ...getTableColumns(media), livePhotoVideo })
    .from(media)
    .where(eq(media.id, id))
  if (!row) throw new Error(`there is no media item ${id}`)
  return row
}

/** Returns false when the image has left the batch already or its conversion is over. */
export async function updateBatchLeft(tx: Tx, key: RunKey, batch: Uuid) {
  const { rowCount } = await tx
    .update(media)
    .set({
      version: sql`${media.version} + 1`,
      updatedAt: sql`now()`,
      conversionBatch: null,
      conversionPriority: null,
      conversionRegrouped: sql`${media.conversionRegrouped} + 1`,
      conversionAdmittedAt: null,
      conversionState: 'queued',
      conversionProgress: null,
    })
    .where(
      and(
        eq(media.id, key.id),
        eq(media.generation, key.generation),
        eq(media.conversionBatch, batch),
        eq(media.uploadStatus, 'processing'),
        isNull(media.deletedAt),
      ),
    )
  return rowCount === 1
}
