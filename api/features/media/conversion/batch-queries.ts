import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import { and, asc, eq, inArray, isNull, sql } from '../../../db/orm.ts'
import { media } from '../../../db/schema/media.ts'
import { type BatchPriority, INTERACTIVE_MEDIA, type OrganizationImages, type WaitingImage } from './batch-plan.ts'

// Must match the predicates of the indexes media_image_… literally: the planner requires it.
const unfinished = sql`kind = 'image' and upload_status = 'processing' and deleted_at is null`
const isWaiting = sql`${unfinished} and conversion_batch is null`
const isBatched = sql`${unfinished} and conversion_batch is not null`

/** Images that wait for a batch. */
export const IMAGES = { table: media, isWaiting }

export async function hasWaiting(tx: Tx, orgId: Uuid): Promise<boolean> {
  const { rowCount } = await tx.execute(sql`select from ${media} where org_id = ${orgId} and ${isWaiting} limit 1`)
  return rowCount === 1
}

/** What the plan needs to know about an organization; `limit` applies to the images that are not interactive. */
export async function findOrganizationImages(tx: Tx, orgId: Uuid, limit: number): Promise<OrganizationImages> {
  const running = await findRunning(tx, orgId)
  const uploaders = await findInteractiveUploaders(tx, orgId)
  const waitingOf = (uploaderId: Uuid) =>
    findWaiting(tx, sql`org_id = ${orgId} and uploader_id = ${uploaderId}`, INTERACTIVE_MEDIA)
  const interactive: OrganizationImages['interactive'][number][] = []
  for (const uploader of uploaders) {
    const own = running.filter((batch) => batch.priority === 'interactive' && batch.uploaderId === uploader)
    interactive.push({ running: own.length, waiting: await waitingOf(uploader) })
  }
  const count = (priority: BatchPriority) =>
    new Set(running.filter((batch) => batch.priority === priority).map((batch) => batch.id)).size
  const others = uploaders.length > 0 ? sql`uploader_id not in (${sql.join(uploaders, sql`, `)})` : sql`true`
  return {
    orgId,
    interactive,
    running: { interactive: count('interactive'), backfill: count('backfill') },
    waiting: await findWaiting(tx, sql`org_id = ${orgId} and ${others}`, limit),
  }
}

/** Batches that are not over, once per uploader of an image that is not. */
async function findRunning(tx: Tx, orgId: Uuid) {
  const { rows } = await tx.execute<{ id: Uuid; priority: BatchPriority; uploaderId: Uuid }>(sql`
    select distinct conversion_batch as id, conversion_priority as priority, uploader_id as "uploaderId"
    from ${media} where org_id = ${orgId} and ${isBatched}`)
  return rows
}

/** Those of the uploaders with waiting images who wait for few media items in all. */
async function findInteractiveUploaders(tx: Tx, orgId: Uuid): Promise<Uuid[]> {
  const { rows } = await tx.execute<{ id: Uuid }>(sql`
    with recursive waiting (id) as (
      (select uploader_id from ${media} where org_id = ${orgId} and ${isWaiting} order by uploader_id limit 1)
      union all
      select (select m.uploader_id from ${media} m where m.org_id = ${orgId} and ${isWaiting} and m.uploader_id > waiting.id
        order by m.uploader_id limit 1)
      from waiting where waiting.id is not null
    )
    select id from waiting where id is not null and (select count(*) from (select from ${media} m
      where m.uploader_id = waiting.id and upload_status = 'processing' and deleted_at is null
      limit ${INTERACTIVE_MEDIA + 1}) unfinished) <= ${INTERACTIVE_MEDIA}`)
  return rows.map(({ id }) => id)
}

async function findWaiting(tx: Tx, where: ReturnType<typeof sql>, limit: number): Promise<WaitingImage[]> {
  const { rows } = await tx.execute<{ id: Uuid; bytes: string; waitedMs: number; regrouped: number }>(sql`
    select id, file_size_bytes::text as bytes, conversion_regrouped as regrouped,
      (extract(epoch from clock_timestamp() - created_at) * 1000)::float8 as "waitedMs"
    from ${media} where ${where} and ${isWaiting} order by created_at, id limit ${limit}`)
  return rows.map((row) => ({ ...row, bytes: Number(row.bytes) }))
}

/**
 * Puts images into a new batch, except those that were deleted meanwhile, and returns its members; without any there is
 * no batch. `updated_at` moves too: the sweep counts its deadlines from here. Call it with the images locked.
 */
export async function formBatch(
  tx: Tx,
  batch: Uuid,
  planned: { ids: readonly Uuid[]; priority: BatchPriority },
): Promise<Uuid[]> {
  const members = await tx
    .update(media)
    .set({
      conversionBatch: batch,
      conversionPriority: planned.priority,
      conversionAdmittedAt: sql`now()`,
      updatedAt: sql`now()`,
    })
    .where(and(inArray(media.id, [...planned.ids]), isWaiting))
    .returning({ id: media.id })
  return members.map(({ id }) => id)
}

/** All members of a batch, in the order of its inputs: those that are over or deleted as well. */
export async function findBatch(tx: Tx, batch: Uuid) {
  return tx
    .select({
      id: media.id,
      orgId: media.orgId,
      generation: media.generation,
      priority: media.conversionPriority,
      fileSizeBytes: media.fileSizeBytes,
      originalTier: media.originalTier,
      isUnfinished: sql<boolean>`(${media.uploadStatus} = 'processing' and ${media.deletedAt} is null)`,
    })
    .from(media)
    .where(eq(media.conversionBatch, batch))
    .orderBy(asc(media.id))
}

/** Whether a member still waits for the result of its batch. */
export async function isBatchUnfinished(tx: Tx, batch: Uuid): Promise<boolean> {
  const [row] = await tx
    .select({ id: media.id })
    .from(media)
    .where(and(eq(media.conversionBatch, batch), eq(media.uploadStatus, 'processing'), isNull(media.deletedAt)))
    .limit(1)
  return row !== undefined
}
