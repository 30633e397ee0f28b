import { and, asc, eq, isNull, or, type SQL, sql } from 'drizzle-orm'
import { formatId } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { type MediaRow, media } from '../db/schema/media.ts'
import type { Change } from '../http/in-organization.ts'
import { type Half, type Lookup, livePhotoOf, lockNamesOf, lookupsOf } from './pairing-plan.ts'

/**
 * Makes uploads of two halves that commit at the same time queue: neither would see the other's row. Held until the end
 * of the transaction; call it before anything that locks the uploader's counters in `user_storage`, which each upload
 * takes after this.
 */
export async function lockPairing(tx: Tx, half: Parameters<typeof lockNamesOf>[0]): Promise<void> {
  const names = lockNamesOf(half)
  if (names.length === 0) return
  // In order of the numbers, so that two transactions with the same two keys cannot wait for each other.
  await tx.execute(sql`
    select pg_advisory_xact_lock(number) from (
      select distinct hashtextextended(name, 0) as number
      from jsonb_array_elements_text(${JSON.stringify(names)}::jsonb) name order by number
    ) numbers`)
}

/** Pairs a half with its counterpart, if that has arrived, and announces it. `lockPairing` must come before its insert. */
export async function pair({ tx, announce }: Change, half: MediaRow): Promise<MediaRow> {
  const counterpart = await findCounterpart(tx, half)
  if (!counterpart) return half
  const [ours, theirs] = [await link(tx, half, counterpart), await link(tx, counterpart, half)]
  const photo = livePhotoOf(ours, theirs)
  if (!photo) throw new Error('the counterpart of a half is of the same kind')
  const { image, video } = photo
  await announce('LivePhotoPaired', image, {
    media_id: formatId('media', image.id),
    asset_identifier: image.assetIdentifier ?? video.assetIdentifier,
    paired_media_id: formatId('media', video.id),
  })
  return ours
}

async function findCounterpart(tx: Tx, half: Half): Promise<Half | undefined> {
  for (const lookup of lookupsOf(half)) {
    const found = await findUnpaired(tx, half, lookup)
    if (found) return found
  }
  return undefined
}

/** The oldest that fits. Locked: a deletion that commits first leaves no counterpart, a later one sees the pair. */
async function findUnpaired(tx: Tx, half: Half, lookup: Lookup): Promise<Half | undefined> {
  const [row] = await tx
    .select()
    .from(media)
    .where(
      and(
        eq(media.orgId, half.orgId),
        eq(media.uploaderId, half.uploaderId),
        eq(media.kind, half.kind === 'image' ? 'video' : 'image'),
        isNull(media.pairedMediaId),
        isNull(media.deletedAt),
        keyOf(lookup),
      ),
    )
    .orderBy(asc(media.createdAt), asc(media.id))
    .limit(1)
    .for('update')
  return row
}

function keyOf(lookup: Lookup): SQL | undefined {
  if (lookup.by === 'pair') return eq(media.livePhotoPairId, lookup.pairId)
  const { asset, unlessPairId } = lookup
  const noOther =
    unlessPairId === null ? undefined : or(isNull(media.livePhotoPairId), eq(media.livePhotoPairId, unlessPairId))
  return and(eq(media.assetIdentifier, asset), noOther)
}

/** Leaves `updated_at` alone: the deadlines of a running conversion count from it. */
async function link(tx: Tx, half: Pick<Half, 'id'>, to: Pick<Half, 'id'>): Promise<MediaRow> {
  const [row] = await tx
    .update(media)
    .set({ pairedMediaId: to.id, version: sql`${media.version} + 1` })
    .where(eq(media.id, half.id))
    .returning()
  if (!row) throw new Error('a half of a Live Photo is gone while it is locked')
  return row
}
